//! Where a lease is in its life: plain data under its lock.
//!
//! Commands to the nodes are sent while it is held, which only queues them: that is what keeps an extend from
//! following a release. No await, log or callback happens under it: whoever is told may ask the lease at once.

use std::time::Duration;

use super::params::LeaseParams;
use super::validity::Validity;
use crate::clock::Instant;
use crate::error::LossReason;
use crate::node::{Reply, Vote};

/// What changes in a lease.
pub(crate) struct Phase {
    /// `Held` at first, then one of the others for good.
    pub(super) status: Status,
    /// Ours for sure until then; it only moves forward.
    pub(super) deadline: Instant,
    /// What renewals ask for.
    pub(super) ttl: Duration,
    /// The last grant was cut short by `max_hold`.
    /// There is nothing left to renew, and the end is called `max_hold`.
    pub(super) capped: bool,
    /// The deletes were sent.
    /// Once is enough: a later release, or a drop, sends none.
    pub(super) deleted: bool,
    /// That it is held for long was logged.
    pub(super) warned: bool,
    /// The longest that the keys may live by what was asked for, confirmed or not.
    /// A delete that cannot be sent is owed for so long.
    pub(super) longest: Duration,
    /// First votes that a quorum did not wait for: listened to so that those of nodes that still connect are sent.
    /// Gone with the first extend, which asks the same of those nodes.
    pub(super) votes: Vec<Reply<Vote>>,
}

/// Whether the lease is held, and how it ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    /// Ours until its deadline.
    Held,
    /// Given back by its owner.
    /// By its owner, that is: who runs under a lease that somebody else gives back is told of a loss.
    Released,
    /// Left to itself: the keys live on.
    Detached,
    /// Why, and when.
    /// When is the deadline itself where time ran out, however late somebody looked.
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
            // More than was asked for, where `max_hold` cut it: a delete owed for too long costs nothing.
            longest: granted.wanted,
            votes: Vec::new(),
        }
    }

    /// A third of the ttl after the round began, if it is to be renewed at all.
    pub(super) fn first_renewal(&self, params: &LeaseParams) -> Option<Instant> {
        (params.renew && !self.capped).then(|| params.acquired + self.ttl / 3)
    }
}
