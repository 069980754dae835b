//! Keys that stay after a release: the behaviour of a node, and the promises about it.

use std::sync::Arc;
use std::time::Duration;

use crate::lease::{LeaseHandle, Status};
use crate::node::Claim;
use crate::quorum::drift;

use super::clock::Time;
use super::monitor::Monitor;
use super::request::{Answer, Peer};
use super::scenario::Promise;
use super::server::Server;

impl Server {
    /// Deletes the keys, or shortens their TTL to the time that they must stay.
    pub(super) fn release(
        &mut self,
        claim: &Claim,
        stay: Duration,
        peer: Peer,
        now: Time,
        pushes: &mut Vec<(Peer, String)>,
    ) -> Answer {
        let ours = |key: &&String| self.owner(key) == Some(&*claim.token);
        let ours: Vec<String> = claim.keys.iter().filter(ours).cloned().collect();
        let end = self.clock_us(now) / 1000 + u64::try_from(stay.as_millis()).unwrap();
        self.keys.iter_mut().filter(|(key, _)| ours.contains(key)).for_each(|(_, entry)| {
            *entry = (claim.kept(), entry.1.min(end));
        });
        if stay.is_zero() {
            self.keys.retain(|key, _| !ours.contains(key));
        }
        if !ours.is_empty() {
            self.written(Some(peer));
        }
        pushes.extend(self.changed(&ours, Some(peer)));
        Answer::Released(ours.len() == claim.keys.len())
    }
}

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
            let min_hold = state.request.options.min_hold;
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
}
