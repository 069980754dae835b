//! Computes how long a grant is valid from the TTL, `max_hold` and the clock drift.
//!
//! Pure arithmetic: it reads no clock.

use std::time::Duration;

use crate::clock::Instant;
use crate::quorum::drift;

/// The validity of a lease that one round of requests grants.
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

    /// Whether `max_hold` limited the TTL. There is nothing to renew then.
    pub(crate) fn is_capped(&self) -> bool {
        self.asked < self.wanted
    }
}
