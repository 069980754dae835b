//! A node: the behaviour of the three scripts on the node's own clock, and the clients to notify of changes.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::node::{Claim, Extension, Fault, Fencing, Holder, KEPT_PREFIX, Vote};

use super::clock::Time;
use super::replicas::{Replica, Waiting};
use super::request::{Answer, Peer, Request};
use super::slots::Slot;
use super::world::Event;

/// The owner of other libraries' keys.
pub(super) const FOREIGN: &str = "foreign";

/// Microseconds since 1970 at the start of every run.
pub(super) const EPOCH_US: u64 = 1_790_000_000_000_000;

#[derive(Clone, Default)]
pub(super) struct Server {
    /// The node is stopped until then. Requests that arrive wait.
    pub(super) paused_until: Time,
    pub(super) backlog: VecDeque<Event>,
    pub(super) incarnation: u32,
    pub(super) started: Time,
    pub(super) ppm: i64,
    pub(super) offset_us: i64,
    /// When it was promoted.
    pub(super) switched: Option<Time>,
    pub(super) keys: Keys,
    pub(super) fences: Fences,
    /// The data of its replica, if that differs from its own.
    pub(super) replica: Option<(Keys, Fences)>,
    /// In a cluster, the owner of the slot that all keys are in.
    pub(super) slot: Slot,
    /// The configuration epoch of the slot's owner as this server sees it.
    pub(super) epoch: u64,
    /// It has noticed that it is cut off from its cluster.
    pub(super) cut_off: bool,
    /// Its replicas, if they are simulated.
    pub(super) replicas: Vec<Replica>,
    /// Number of its writes, the number at each connection's last write, and the number that was sent to replicas.
    pub(super) offset: u64,
    pub(super) wrote: BTreeMap<Peer, u64>,
    pub(super) streamed: u64,
    /// Connections that wait for replicas.
    pub(super) waits: Vec<Waiting>,
    pub(super) tracked: BTreeMap<String, Vec<Peer>>,
    /// A fencing token was stored by hand. Every request for a token on this server fails with a separate error.
    pub(super) poisoned: bool,
    /// A value that it returns once in place of a fencing token.
    pub(super) wrong_token: Option<u64>,
}

pub(super) type Keys = BTreeMap<String, (String, u64)>;
pub(super) type Fences = BTreeMap<String, (u64, u64)>;

/// The expiry of a key without a TTL.
pub(super) const NO_END: u64 = u64::MAX;

impl Server {
    pub(super) fn new(ppm: i64, offset_us: i64) -> Self {
        Self { ppm, offset_us, ..Self::default() }
    }

    pub(super) fn clock_us(&self, now: Time) -> u64 {
        let run = i128::from(now) * (1_000_000 + i128::from(self.ppm)) / 1_000_000 / 1000;
        EPOCH_US.saturating_add_signed(self.offset_us) + u64::try_from(run).unwrap()
    }

    pub(super) fn uptime_seconds(&self, now: Time) -> u64 {
        (self.clock_us(now) - self.clock_us(self.started)) / 1_000_000
    }

    /// Records a write of this connection.
    pub(super) fn written(&mut self, by: Option<Peer>) {
        self.offset += 1;
        self.wrote.extend(by.map(|peer| (peer, self.offset)));
    }

    pub(super) fn expire(&mut self, now: Time) -> Vec<String> {
        let ms = self.clock_us(now) / 1000;
        let gone: Vec<String> = self
            .keys
            .iter()
            .filter(|(_, (_, end))| *end <= ms)
            .map(|(key, _)| key.clone())
            .collect();
        self.keys.retain(|key, _| !gone.contains(key));
        self.fences.retain(|_, (_, end)| *end > ms);
        gone
    }

    pub(super) fn changed(&mut self, keys: &[String], except: Option<Peer>) -> Vec<(Peer, String)> {
        let mut pushes = Vec::new();
        for key in keys {
            for peer in self.tracked.remove(key).unwrap_or_default() {
                if Some(peer) != except {
                    pushes.push((peer, key.clone()));
                }
            }
        }
        pushes
    }

    fn track(&mut self, keys: &[String], peer: Peer) {
        for key in keys {
            let peers = self.tracked.entry(key.clone()).or_default();
            if !peers.contains(&peer) {
                peers.push(peer);
            }
        }
    }

    /// Runs one request. Returns the reply and the clients to notify.
    pub(super) fn run(
        &mut self,
        request: &Request,
        peer: Peer,
        now: Time,
    ) -> (Answer, Vec<(Peer, String)>) {
        let expired = self.expire(now);
        let mut pushes = self.changed(&expired, None);
        let answer = match request {
            Request::Attempt { claim, ttl, .. } => self
                .acquire(claim, *ttl, Fencing::Off, peer, now, &mut pushes)
                .map_or(Answer::Refused, Answer::Vote),
            Request::Acquire { claim, ttl, fencing, .. } => self
                .acquire(claim, *ttl, *fencing, peer, now, &mut pushes)
                .map_or(Answer::Refused, Answer::Vote),
            Request::Extend { claim, ttl, fencing, check } => {
                let extension = self.extend(claim, *ttl, *fencing, peer, now, &mut pushes);
                // This includes an extend that lengthens nothing (`rewrite()`), because `WAIT` counts from this
                // connection's last write.
                if extension == Some(Extension::Extended) && !check {
                    self.written(Some(peer));
                }
                extension.map_or(Answer::Refused, Answer::Extension)
            }
            Request::Release { claim, stay } => self.release(claim, *stay, peer, now, &mut pushes),
            // Handled by `World::wait` and the cluster, not here.
            Request::Wait { .. } | Request::Asking(_) | Request::Slots { .. } => Answer::Refused,
            Request::Inspect { key } => {
                let token = self.owner(key).map(str::to_owned);
                Answer::Holder(token.map(|token| Holder { token, remaining: None }))
            }
        };
        (answer, pushes)
    }

    pub(super) fn owner(&self, key: &str) -> Option<&str> {
        self.keys.get(key).map(|(token, _)| token.as_str())
    }

    fn acquire(
        &mut self,
        claim: &Claim,
        ttl: Duration,
        fencing: Fencing,
        peer: Peer,
        now: Time,
        pushes: &mut Vec<(Peer, String)>,
    ) -> Option<Vote> {
        let ms = self.clock_us(now) / 1000;
        let others = |key: &String| self.keys.get(key).filter(|(owner, _)| *owner != *claim.token);
        let busy = claim.keys.iter().filter_map(others).map(|(_, end)| *end).max();
        if let Some(end) = busy {
            let taken = claim.keys.iter().enumerate().filter(|(_, key)| others(key).is_some());
            let taken = taken.map(|(at, _)| at).collect();
            self.track(&claim.keys, peer);
            let left = (end != NO_END).then(|| Duration::from_millis(end - ms));
            return Some(Vote::Held(left, taken));
        }
        let fence = self.fence(claim, fencing, now).ok()?;
        let fence = fence.map(|fence| self.wrong_token.take().unwrap_or(fence));
        let end = ms + u64::try_from(ttl.as_millis()).unwrap().max(1);
        for key in claim.keys.iter() {
            let kept = self.keys.get(key).map_or(0, |(_, end)| *end);
            self.keys.insert(key.clone(), (claim.token.to_string(), end.max(kept)));
        }
        self.written(Some(peer));
        pushes.extend(self.changed(&claim.keys, Some(peer)));
        self.track(&claim.keys, peer);
        Some(Vote::Granted(fence))
    }

    fn extend(
        &mut self,
        claim: &Claim,
        ttl: Duration,
        fencing: Fencing,
        peer: Peer,
        now: Time,
        pushes: &mut Vec<(Peer, String)>,
    ) -> Option<Extension> {
        let is_held = |owner: &&str| !owner.starts_with(KEPT_PREFIX);
        let owners: Vec<_> = claim.keys.iter().map(|key| self.owner(key).filter(is_held)).collect();
        if owners.iter().flatten().any(|owner| **owner != *claim.token) {
            return Some(Extension::Taken);
        }
        if owners.contains(&None) {
            return Some(Extension::Missing);
        }
        self.fence(claim, fencing, now).ok()?;
        let end = self.clock_us(now) / 1000 + u64::try_from(ttl.as_millis()).unwrap().max(1);
        let mut longer = false;
        for key in claim.keys.iter() {
            if let Some(entry) = self.keys.get_mut(key)
                && entry.1 < end
            {
                entry.1 = end;
                longer = true;
                pushes.extend(self.changed(std::slice::from_ref(key), Some(peer)));
            }
        }
        if longer {
            self.written(Some(peer));
        }
        self.track(&claim.keys, peer);
        Some(Extension::Extended)
    }

    /// The fencing rule of `acquire.lua` and `extend.lua`.
    fn fence(&mut self, claim: &Claim, fencing: Fencing, now: Time) -> Result<Option<u64>, Fault> {
        let us = self.clock_us(now);
        let stored =
            claim.fences.iter().filter_map(|key| self.fences.get(key)).map(|(fence, _)| *fence);
        let Some(next) = fencing.next(stored.max().unwrap_or(0), us)? else { return Ok(None) };
        let forget = us.max(next) / 1000 + 600_000;
        for key in claim.fences.iter() {
            self.fences.insert(key.clone(), (next, forget));
        }
        Ok(Some(next))
    }
}
