//! Where a lease is in its life: plain data under its lock.

use std::time::Duration;

use super::validity::Validity;
use crate::clock::Instant;
use crate::error::LossReason;
use crate::node::Vote;
use crate::quorum::Collect;

/// What changes in a lease.
pub(crate) struct Phase {
    pub(super) status: Status,
    /// Ours for sure until then; it only moves forward.
    pub(super) deadline: Instant,
    /// What renewals ask for.
    pub(super) ttl: Duration,
    /// The last grant was cut short by `max_hold`.
    pub(super) capped: bool,
    /// The deletes were sent.
    pub(super) deleted: bool,
    /// That it is held for long was logged.
    pub(super) warned: bool,
    /// The longest that the keys may live by what was asked for, confirmed or not.
    pub(super) longest: Duration,
    /// First votes that a quorum did not wait for: listened to so that those of nodes that still connect are sent.
    pub(super) votes: Option<Collect<Vote>>,
}

/// Whether the lease is held, and how it ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    /// Ours until its deadline.
    Held,
    /// Given back by its owner.
    Released,
    /// Left to itself: the keys live on.
    Abandoned,
    /// Why, and when.
    Lost(LossReason, Instant),
}

impl Phase {
    /// The first one, of what a quorum granted.
    pub(super) fn granted(granted: Validity) -> Self {
        Self {
            status: Status::Held,
            deadline: granted.ends(),
            ttl: granted.wanted,
            capped: granted.is_capped(),
            deleted: false,
            warned: false,
            longest: granted.wanted,
            votes: None,
        }
    }
}
