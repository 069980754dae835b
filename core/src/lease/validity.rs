//! How long a grant makes a lease last: the one place where ttl, `max_hold` and drift meet.

use std::time::Duration;

use crate::clock::Instant;
use crate::quorum::drift;

/// What one request to the nodes makes of a lease, if they grant it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Validity {
    /// Before the first byte of it was sent.
    pub(crate) started: Instant,
    /// The ttl that the lease is to have.
    pub(crate) wanted: Duration,
    /// What the nodes are asked for: the ttl, or what `max_hold` leaves of it.
    pub(crate) asked: Duration,
}

impl Validity {
    /// `hold_end`: when `max_hold` is over.
    pub(crate) fn new(started: Instant, wanted: Duration, hold_end: Option<Instant>) -> Self {
        let left = hold_end.map_or(wanted, |end| end.since(started));
        Self { started, wanted, asked: wanted.min(left) }
    }

    /// Until then the lease is ours for sure, however late the answers came: no node has counted for as long.
    pub(crate) fn ends(&self) -> Instant {
        self.started + self.asked.saturating_sub(drift(self.asked))
    }

    /// Whether `max_hold` cut it: there is nothing to renew then.
    pub(crate) fn is_capped(&self) -> bool {
        self.asked < self.wanted
    }
}
