//! How long a grant makes a lease last: the one place where ttl, `max_hold` and drift meet.
//!
//! Arithmetic only: no clock is read here.

use std::time::Duration;

use crate::clock::Instant;
use crate::quorum::drift;

/// What one request to the nodes makes of a lease, if they grant it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Validity {
    /// Before the first byte of it was sent.
    /// A node's own count began later, so it ends later.
    pub(crate) started: Instant,
    /// The ttl that the lease is to have.
    /// Renewals go on asking for it, whatever `max_hold` leaves of this one.
    pub(crate) wanted: Duration,
    /// What the nodes are asked for: the ttl, or what `max_hold` leaves of it.
    pub(crate) asked: Duration,
}

impl Validity {
    /// `hold_end`: when `max_hold` is over.
    pub(crate) fn new(started: Instant, wanted: Duration, hold_end: Option<Instant>) -> Self {
        // Zero once `max_hold` is over: `since` never goes below.
        let left = hold_end.map_or(wanted, |end| end.since(started));
        Self { started, wanted, asked: wanted.min(left) }
    }

    /// Until then the lease is ours for sure, however late the answers came: no node has counted for as long.
    pub(crate) fn ends(&self) -> Instant {
        // What is asked may be shorter than its drift, near the end of `max_hold`: then it is over as it
        // begins.
        self.started + self.asked.saturating_sub(drift(self.asked))
    }

    /// Whether `max_hold` cut it: there is nothing to renew then.
    pub(crate) fn is_capped(&self) -> bool {
        self.asked < self.wanted
    }
}
