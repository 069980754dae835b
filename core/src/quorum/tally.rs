//! The arithmetic of a vote: whether a quorum granted or still can, and until when a granted lease is valid, after a
//! part of its TTL for clock drift.
//!
//! It has no I/O and reads no clock. The shared vectors in `tests/vectors/tally.toml` specify it.

use std::time::Duration;

use crate::clock::Instant;
use crate::options::lock::Options;

/// Counts the votes of one round.
///
/// Each node is counted at most once. The three counts together never exceed `nodes`, which the subtractions rely on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    nodes: usize,
    granted: usize,
    refused: usize,
    faults: usize,
}

impl Tally {
    /// Creates an empty tally for this number of nodes.
    pub fn new(nodes: usize) -> Self {
        Self { nodes, ..Self::default() }
    }

    /// Counts a node that granted.
    pub fn grant(&mut self) {
        self.granted += 1;
    }

    /// Counts a node that refused.
    ///
    /// The node works: its reply is valid.
    pub fn refuse(&mut self) {
        self.refused += 1;
    }

    /// Counts a node without a valid reply.
    ///
    /// This is not a refusal: the node may have granted, and its reply may have been lost.
    pub fn fault(&mut self) {
        self.faults += 1;
    }

    /// Returns the size of a quorum: more than half of the nodes.
    ///
    /// For four nodes it is three. With two, both halves could form a quorum.
    pub fn quorum(&self) -> usize {
        self.nodes / 2 + 1
    }

    /// Whether a quorum granted.
    pub fn met(&self) -> bool {
        self.granted >= self.quorum()
    }

    /// Whether the nodes that have not refused or failed could still form a quorum.
    pub fn can_be_met(&self) -> bool {
        self.nodes - self.refused - self.faults >= self.quorum()
    }

    /// How many of the nodes that have not failed may refuse and still leave a quorum.
    pub(crate) fn spare(&self) -> usize {
        (self.nodes - self.faults).saturating_sub(self.quorum())
    }

    /// Whether the refusals alone make a quorum impossible.
    ///
    /// Failed nodes do not count as refusals, because they may still have the lease.
    pub fn denied(&self) -> bool {
        self.nodes - self.refused < self.quorum()
    }

    /// Whether some nodes granted and others refused, as if several clients had asked at the same time.
    pub(crate) fn divided(&self) -> bool {
        self.granted > 0 && self.refused > 0
    }

    /// Whether a quorum of nodes replied, whatever they replied.
    pub(crate) fn answered(&self) -> bool {
        self.granted + self.refused >= self.quorum()
    }

    /// Whether the failures alone make a quorum impossible, regardless of the holder.
    pub fn unavailable(&self) -> bool {
        self.nodes - self.faults < self.quorum()
    }

    /// Whether no further reply can change the outcome.
    ///
    /// Once true, this stays true, because counts only grow.
    pub(crate) fn decided(&self) -> bool {
        self.met() || !self.can_be_met()
    }
}

/// Returns the time that is subtracted from a lease with this TTL to get its guaranteed validity.
///
/// Clock rates may differ by 1 %, and expiry has a granularity of 1 ms on each side. The rule comes from the Redis
/// documentation, "Distributed Locks with Redis".
pub fn drift(ttl: Duration) -> Duration {
    ttl / 100 + Duration::from_millis(2)
}

/// Until when a granted lease is valid: the start of its round plus the TTL, minus the clock drift. `max_hold` may
/// limit the TTL.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Validity {
    /// The time before the first byte was sent. A node starts its TTL later, so it ends later.
    pub(crate) started: Instant,
    /// The TTL of the lock. Renewals continue to request it, even if `max_hold` limited this round.
    pub(crate) wanted: Duration,
    /// The requested TTL: the TTL of the lock, limited by the rest of `max_hold`.
    pub(crate) asked: Duration,
}

impl Validity {
    /// `hold_end` is the end of `max_hold`.
    pub(crate) fn new(started: Instant, wanted: Duration, hold_end: Option<Instant>) -> Self {
        // Zero once `max_hold` has ended, because `since` saturates.
        let left = hold_end.map_or(wanted, |end| end.since(started));
        Self { started, wanted, asked: wanted.min(left) }
    }

    /// The lease is certainly held until then, no matter how late the replies arrived.
    pub(crate) fn ends(&self) -> Instant {
        // Near the end of `max_hold` the requested TTL may be shorter than its drift. The lease then ends immediately.
        self.started + self.asked.saturating_sub(drift(self.asked))
    }

    /// The TTL that the nodes set for a lease with these options that was acquired at this time.
    ///
    /// If `max_hold` ends a lease, its keys stay for the rest of `min_hold`, as after a release. A run that happens
    /// once has failed then, and is not remembered.
    pub(crate) fn key_ttl(&self, options: &Options, acquired: Instant) -> Duration {
        if !self.is_capped() || options.is_once() {
            return self.asked;
        }
        let kept = (acquired + options.min_hold).since(self.started);
        self.asked.max(kept + drift(kept))
    }

    /// Whether `max_hold` limited the TTL. There is nothing to renew then.
    pub(crate) fn is_capped(&self) -> bool {
        self.asked < self.wanted
    }
}
