//! Changes a node's server: its replica is promoted, and clients learn of it one after the other.

use std::time::Duration;

use super::clock::Time;
use super::request::{Answer, Peer};
use super::world::{Event, MS, World};

impl World {
    /// A replica rejects a write with READONLY.
    pub(super) fn refuse(&mut self, (client, epoch): Peer, node: usize, id: u64) {
        let (answer, at) = (Answer::Refused, self.reply_time(client, node));
        self.at(at, Event::Answer { client, node, epoch, id, answer });
        // The client treats it as a broken connection.
        self.at(at, Event::Broken { client, node, epoch });
    }

    /// Promotes the node's replica.
    pub(super) fn switch(&mut self, node: usize, stale: Time, down: Time) {
        let now = self.now;
        let count = self.servers[node].replicas.len();
        if count > 0 {
            let all = self.durability.min_replicas as usize == count;
            let any = all.then(|| self.rng.usize(..count));
            let Some(old) = self.servers[node].promoted(any, now) else { return };
            self.old.insert(node, (old, now + stale));
            let (incarnation, late) = (self.servers[node].incarnation, self.rng.u64(0..300 * MS));
            self.at(now + stale + late, Event::Resync { node, incarnation });
        } else {
            let old = self.servers[node].switch(now);
            self.old.insert(node, (old, now + stale));
        }
        for client in 0..self.clocks.len() {
            let epoch = self.links[client][node].epoch;
            let at = now + self.rng.u64(0..=stale);
            self.at(at, Event::ServerChanged { client, node, epoch, down });
        }
    }

    /// How long some clients may still use the server that this one replaced, according to the sentinels.
    pub(super) fn maybe_used_before(&self, node: usize) -> Option<Duration> {
        let switched = self.servers[node].switched.filter(|_| !self.guard.is_zero())?;
        Some(NOTICE_TIME.saturating_sub(Duration::from_nanos(self.now - switched)))
    }

    /// How long a promoted server may not take first votes, according to the sentinels.
    pub(super) fn new_for(&self, node: usize) -> Duration {
        let Some(switched) = self.servers[node].switched else { return Duration::ZERO };
        let age = Duration::from_nanos(self.now - switched);
        (self.guard.mul_f64(1.01) + NOTICE_TIME).saturating_sub(age)
    }
}

/// How long some clients may still use a server after it was replaced. Equals `FAILOVER_NOTICE_TIME` of the core.
pub(super) const NOTICE_TIME: Duration = Duration::from_secs(2);
