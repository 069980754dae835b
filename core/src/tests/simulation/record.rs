//! A lease as the monitor sees it.

use std::sync::Arc;

use crate::clock::Instant;
use crate::lease::{LeaseState, Status};

use super::clock::Time;
use super::progress::Sound;
use super::world::MS;

pub(super) struct Record {
    pub(super) client: usize,
    pub(super) names: Vec<&'static str>,
    pub(super) state: Arc<LeaseState>,
    pub(super) notified: bool,
    /// The holder itself is ending the lease.
    pub(super) given_up: bool,
    pub(super) over_since: Option<Time>,
    /// The end of the lease by `max_hold`.
    pub(super) hold_end: Option<Time>,
    /// Its keys were deleted by hand on every running node. Its holder must be notified by this time.
    pub(super) deleted: Option<Time>,
    pub(super) sound: Option<Sound>,
}

/// A lease that is valid now.
pub(super) struct Valid {
    pub(super) token: String,
    /// Whether the lease is still valid at a later time, unless it is extended.
    pub(super) at: Box<dyn Fn(Time) -> bool>,
}

/// Maximum delay of a running client, which is what one step of virtual time can hide.
pub(super) const MAX_DELAY: Time = 25 * MS;

impl Record {
    /// The violation of a lease that is valid now, if there is one.
    pub(super) fn overdue(&self, now: Time, runs: bool) -> Option<String> {
        if self.hold_end.is_some_and(|end| now > end) {
            return Some(format!("beyond max_hold: client {}", self.client));
        }
        let unreported = self.deleted.is_some_and(|due| now > due) && runs;
        unreported.then(|| format!("loss not reported soon: client {}", self.client))
    }

    /// The violation of a lease that is over, if there is one.
    pub(super) fn unreported(&mut self, now: Time, runs: bool) -> Option<String> {
        if !runs {
            self.over_since = None;
            return None;
        }
        let since = *self.over_since.get_or_insert(now);
        let (names, client, released) = (&self.names, self.client, ended(&self.state));
        if released == Some(false) && !self.given_up {
            return Some(format!("loss not reported: {names:?} released under {client}"));
        }
        let late = released != Some(false) && !self.notified && now > since + MAX_DELAY;
        late.then(|| format!("loss not reported: {names:?} to client {client}"))
    }
}

/// Whether the lease would be held at `now`.
pub(super) fn valid_at(state: &LeaseState, now: Instant) -> bool {
    let (status, deadline) = state.peek();
    status == Status::Held && now < deadline
}

/// Whether the end of the lease was noticed. The value tells a loss from a release.
pub(super) fn ended(state: &LeaseState) -> Option<bool> {
    let (status, _) = state.peek();
    (status != Status::Held).then_some(matches!(status, Status::Lost(..)))
}
