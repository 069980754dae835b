//! A lease as the monitor knows it.

use std::sync::Arc;

use crate::lease::State;

use super::clock::Time;
use super::progress::Sound;
use super::world::MS;

pub(super) struct Record {
    pub(super) client: usize,
    pub(super) names: Vec<&'static str>,
    pub(super) state: Arc<State>,
    pub(super) told: bool,
    /// Whoever runs under it ends it now.
    pub(super) given_up: bool,
    pub(super) over_since: Option<Time>,
    /// Not valid after that, by `max_hold`.
    pub(super) hold_end: Option<Time>,
    /// Its keys were deleted by hand, everywhere that a living node has them: its holder knows by then.
    pub(super) deleted: Option<Time>,
    pub(super) sound: Option<Sound>,
}

/// A lease that is valid now.
pub(super) struct Valid {
    pub(super) token: String,
    /// Whether it still is at a later time, unless it is extended.
    pub(super) at: Box<dyn Fn(Time) -> bool>,
}

/// How late a client that runs may be: what a step of virtual time can hide.
pub(super) const LATE: Time = 25 * MS;

impl Record {
    /// What is wrong with a lease that is valid now.
    pub(super) fn overdue(&self, now: Time, runs: bool) -> Option<String> {
        if self.hold_end.is_some_and(|end| now > end) {
            return Some(format!("beyond max_hold: client {}", self.client));
        }
        let untold = self.deleted.is_some_and(|due| now > due) && runs;
        untold.then(|| format!("loss not told soon: client {}", self.client))
    }

    /// What is wrong with one that is over.
    pub(super) fn untold(&mut self, now: Time, runs: bool) -> Option<String> {
        if !runs {
            self.over_since = None;
            return None;
        }
        let since = *self.over_since.get_or_insert(now);
        let (names, client, released) = (&self.names, self.client, self.state.ended());
        if released == Some(false) && !self.given_up {
            return Some(format!("loss not told: {names:?} released under {client}"));
        }
        let late = released != Some(false) && !self.told && now > since + LATE;
        late.then(|| format!("loss not told: {names:?} to client {client}"))
    }
}
