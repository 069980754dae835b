//! The variable state of a lease: plain data under the lease's lock.
//!
//! Commands to the nodes are sent under the lock. Sending only queues them, and this order keeps an extend from
//! following a release. Never await, log or run a callback under the lock: a notified caller may query the lease
//! immediately.

use std::time::Duration;

use super::params::LeaseParams;
use super::validity::Validity;
use crate::clock::Instant;
use crate::error::LossReason;
use crate::node::{Reply, Vote};

/// The variable state of a lease.
pub(crate) struct Phase {
    /// `Held` at first, then one of the other states permanently.
    pub(super) status: Status,
    /// The lease is certainly held until then. It only moves forward.
    pub(super) deadline: Instant,
    /// The TTL that renewals request.
    pub(super) ttl: Duration,
    /// Whether `max_hold` limited the last grant. There is nothing left to renew, and the loss reason is `max_hold`.
    pub(super) capped: bool,
    /// Whether the deletes were sent. A later release or drop sends none.
    pub(super) deleted: bool,
    /// Whether the warning about a long hold was logged.
    pub(super) warned: bool,
    /// The longest time that the keys may live according to all requests, confirmed or not. A delete that cannot be
    /// sent is kept pending for that long.
    pub(super) longest: Duration,
    /// First votes that the quorum did not need. They are kept so that nodes which are still connecting receive theirs.
    /// The first extend replaces them.
    pub(super) votes: Vec<Reply<Vote>>,
}

/// Whether the lease is held, and how it ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    /// Held until the deadline.
    Held,
    /// Released by the owner. If another caller releases it, the owner is notified of a loss instead.
    Released,
    /// Detached: the keys live on.
    Detached,
    /// The reason and the time of a loss. If the lease expired, the time is the deadline, even if this was noticed
    /// later.
    Lost(LossReason, Instant),
}

impl Phase {
    /// The first phase after a quorum granted the lease.
    pub(super) fn granted(granted: Validity) -> Self {
        Self {
            status: Status::Held,
            deadline: granted.ends(),
            ttl: granted.wanted,
            capped: granted.is_capped(),
            deleted: false,
            warned: false,
            // This exceeds the request if `max_hold` limited it. Keeping a pending delete for too long is harmless.
            longest: granted.wanted,
            votes: Vec::new(),
        }
    }

    /// A third of the TTL after the round began, or `None` if the lease is not renewed.
    pub(super) fn first_renewal(&self, params: &LeaseParams) -> Option<Instant> {
        (params.renew && !self.capped).then(|| params.acquired + self.ttl / 3)
    }
}
