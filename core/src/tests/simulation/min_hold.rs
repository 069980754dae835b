//! The promises about keys that stay after a release.
//!
//! A release that no quorum confirmed keeps them for the TTL at least. Nodes that forget their data keep them for the
//! restart guard: they grant no lease for that long.

use std::sync::Arc;
use std::time::Duration;

use crate::lease::{LeaseHandle, LeaseState, Status};
use crate::quorum::drift;

use super::clock::Time;
use super::monitor::Monitor;
use super::scenario::Promise;

impl Monitor {
    /// Checks that each of these names was released long enough after its acquire.
    pub(super) fn check_min_hold(
        &mut self,
        client: usize,
        names: &[&'static str],
        hold: &LeaseHandle,
        now: Time,
    ) {
        if !self.promise.is_some_and(Promise::is_all) {
            return;
        }
        let early = self.staying.iter().find(|(other, theirs, state)| {
            let min_hold = self.sure_hold(state);
            let until = state.acquired + min_hold.saturating_sub(drift(min_hold));
            theirs.iter().any(|name| names.contains(name))
                && state.claim.token != hold.0.claim.token
                && state.peek().0 == Status::Released
                && self.clocks[*other].local(now) < until
        });
        if let Some((other, ..)) = early {
            let other = *other;
            self.fail(format!("too early: client {client} has {names:?} of client {other}"));
        }
        if !hold.0.request.options.min_hold.is_zero() {
            self.staying.push((client, names.to_vec(), Arc::clone(&hold.0)));
        }
    }

    /// How long the keys certainly stay after the acquire.
    fn sure_hold(&self, state: &LeaseState) -> Duration {
        let request = &state.request;
        let mut sure = request.options.min_hold;
        if !self.confirmed.contains(&*state.claim.token) {
            let max_hold = request.options.max_hold.unwrap_or(Duration::MAX);
            sure = sure.min(request.options.ttl).min(state.ttl()).min(max_hold);
        }
        if request.guard.is_zero() { sure } else { sure.min(request.guard) }
    }
}
