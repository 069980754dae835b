//! The sentinels of a node, and the promotion of its replica, of which they learn one after the other.

use std::time::Duration;

use super::clock::Time;
use super::net::{QUORUM, Remote, server_port};
use super::resp::Reply;
use super::world::{Event, MS, World};

/// What a sentinel knows about its node.
#[derive(Clone, Copy, Default)]
pub(super) struct Sentinel {
    /// The address of the primary.
    address: u32,
    since: Time,
}

impl World {
    /// Runs a request of a client at a sentinel.
    pub(super) fn sentinel(
        &mut self,
        conn: usize,
        (node, index): (usize, usize),
        words: &[&str],
    ) -> Option<Reply> {
        let known = self.sentinels[node][index];
        let port = server_port(node, known.address).to_string();
        Some(match words {
            ["HELLO", ..] => {
                self.conns[conn].state.resp3 = true;
                Reply::Map(vec![("mode", Reply::bulk("sentinel"))])
            }
            ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", _] => {
                Reply::List(vec![Reply::bulk("127.0.0.1"), Reply::bulk(port)])
            }
            ["SENTINEL", "MASTER", _] => {
                let age = (self.now - known.since) / MS;
                Reply::Map(vec![
                    ("ip", Reply::bulk("127.0.0.1")),
                    ("port", Reply::bulk(port)),
                    ("config-epoch", Reply::bulk(known.address.to_string())),
                    ("role-reported-time", Reply::bulk(age.to_string())),
                ])
            }
            ["SUBSCRIBE", channels @ ..] => {
                self.conns[conn].state.subscribed = true;
                for (at, channel) in (1..).zip(channels) {
                    let push = ["subscribe", *channel].map(Reply::bulk);
                    let push = push.into_iter().chain([Reply::Int(at)]).collect();
                    self.push(conn, &Reply::Push(push));
                }
                return None;
            }
            _ => Reply::Status("PONG"),
        })
    }

    /// A sentinel learns of a failover, and tells its subscribers.
    pub(super) fn sentinel_learns(&mut self, node: usize, index: usize, address: u32) {
        if address < self.sentinels[node][index].address {
            return;
        }
        self.sentinels[node][index] = Sentinel { address, since: self.now };
        let here = Remote::Sentinel { node, index };
        for conn in 0..self.conns.len() {
            if self.conns[conn].remote == here && self.conns[conn].state.subscribed {
                let push = ["message", "+switch-master", "lock"].map(Reply::bulk).to_vec();
                self.push(conn, &Reply::Push(push));
            }
        }
    }

    /// Promotes the node's replica, which accepts connections after `down`. The former primary continues for `stale`.
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
        self.servers[node].accepts_from = now + down;
        let address = self.servers[node].address;
        for index in 0..if self.sentinels.is_empty() { 0 } else { QUORUM } {
            let at = now + self.rng.u64(0..=stale);
            self.at(at, Event::SentinelLearns { node, index, address });
        }
        self.settled[node] = self.settled[node].max(now + stale);
    }

    /// Since when all sentinels know the primary.
    pub(super) fn announced(&self, node: usize) -> Time {
        let Some(sentinels) = self.sentinels.get(node) else { return 0 };
        sentinels.iter().map(|sentinel| sentinel.since).max().unwrap_or(0)
    }

    /// How long a new connection's server takes no first vote, at most.
    pub(super) fn quarantine(&self, place: usize, is_other: bool) -> Duration {
        let guard = self.guard.mul_f64(1.01);
        let server = &self.servers[place];
        let uptime = Duration::from_secs(server.uptime_seconds(self.now));
        let restarted = (guard + Duration::from_secs(1)).saturating_sub(uptime);
        let other = if is_other { guard } else { Duration::ZERO };
        let age = Duration::from_nanos(self.now.saturating_sub(self.announced(place)));
        let promoted = if self.announced(place) > 0 {
            (guard + NOTICE_TIME).saturating_sub(age)
        } else {
            Duration::ZERO
        };
        restarted.max(other).max(promoted)
    }
}

/// How long some clients may still use a server after it was replaced. Equals `FAILOVER_NOTICE_TIME` of the core.
const NOTICE_TIME: Duration = Duration::from_secs(2);
