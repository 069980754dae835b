//! The arithmetic of a vote, pure: no I/O, no clock.
//!
//! Every decision of a round is one of these comparisons; the shared vectors (`tests/vectors/tally.toml`) hold
//! them.

use std::time::Duration;

/// The arithmetic of a vote: pure, no I/O.
///
/// Each node is counted once at most: the three counts together never exceed `nodes`, which the subtractions
/// rely on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many were asked, or will be.
    nodes: usize,
    /// How many said yes.
    granted: usize,
    /// How many said no.
    refused: usize,
    /// How many gave no answer that counts.
    faults: usize,
}

impl Tally {
    /// An empty tally over this many nodes.
    pub fn new(nodes: usize) -> Self {
        Self { nodes, ..Self::default() }
    }

    /// Counts a node that granted.
    pub fn grant(&mut self) {
        self.granted += 1;
    }

    /// Counts a node that cleanly refused.
    ///
    /// It answered, and is of use: it only says no.
    pub fn refuse(&mut self) {
        self.refused += 1;
    }

    /// Counts a node that gave no answer that counts.
    ///
    /// Never a refusal: it may have granted, and its answer was lost.
    pub fn fault(&mut self) {
        self.faults += 1;
    }

    /// More than half of the nodes.
    ///
    /// Of four nodes three: half is no quorum, for the other half would be one too.
    pub fn quorum(&self) -> usize {
        self.nodes / 2 + 1
    }

    /// A quorum granted.
    pub fn met(&self) -> bool {
        self.granted >= self.quorum()
    }

    /// The nodes that have not refused or failed could still make a quorum.
    pub fn can_be_met(&self) -> bool {
        self.nodes - self.refused - self.faults >= self.quorum()
    }

    /// So many nodes refused that no answer of the others could make a quorum.
    ///
    /// Faults do not count here: they may still have the lease.
    pub fn denied(&self) -> bool {
        self.nodes - self.refused < self.quorum()
    }

    /// So many nodes are faults that no quorum is possible, whoever holds the lock.
    pub fn unavailable(&self) -> bool {
        self.nodes - self.faults < self.quorum()
    }

    /// No further answer can change whether the quorum is met.
    ///
    /// Once true it stays true: counts only grow.
    pub(crate) fn decided(&self) -> bool {
        self.met() || !self.can_be_met()
    }
}

/// What is taken off a lease of this ttl, so that the rest is left for sure: clocks may run at rates that differ by
/// 1 %, and expiry has a granularity of 1 ms on each side. The rule is the Redis documentation's, "Distributed
/// Locks with Redis".
pub fn drift(ttl: Duration) -> Duration {
    ttl / 100 + Duration::from_millis(2)
}
