//! The arithmetic of a vote: whether a quorum granted or still can, and how much of a TTL is lost to clock drift.
//!
//! It has no I/O and reads no clock. Every decision of a round is one of these comparisons. The shared vectors in
//! `tests/vectors/tally.toml` specify them.

use std::time::Duration;

/// Counts the votes of one round.
///
/// Each node is counted at most once. The three counts together never exceed `nodes`, which the subtractions rely on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The number of nodes of the client.
    nodes: usize,
    /// The number of nodes that granted.
    granted: usize,
    /// The number of nodes that refused.
    refused: usize,
    /// The number of nodes without a valid reply.
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

    /// Whether the refusals alone make a quorum impossible.
    ///
    /// Failed nodes do not count as refusals, because they may still have the lease.
    pub fn denied(&self) -> bool {
        self.nodes - self.refused < self.quorum()
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
