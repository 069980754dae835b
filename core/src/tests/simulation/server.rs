//! A server: its keys on its own clock, and the connections to notify of changes.

use std::collections::BTreeMap;

use super::clock::Time;
use super::refusals::Refusal;
use super::replicas::{Replica, Waiting};
use super::slots::Slot;

/// A connection as the server sees it: the client, and the ID.
pub(super) type Peer = (usize, u32);

/// The owner of other libraries' keys.
pub(super) const FOREIGN: &str = "foreign";

/// Microseconds since 1970 at the start of every run.
pub(super) const EPOCH_US: u64 = 1_790_000_000_000_000;

#[derive(Clone, Default)]
pub(super) struct Server {
    /// The node is stopped until then. Requests that arrive wait.
    pub(super) paused_until: Time,
    pub(super) incarnation: u32,
    /// A promoted replica has another address than its predecessor.
    pub(super) address: u32,
    /// It accepts no connection until then.
    pub(super) accepts_from: Time,
    pub(super) started: Time,
    /// Why it refuses some commands, and until when. When the last refusal ends.
    pub(super) refuses: Option<(Refusal, Time)>,
    pub(super) refuses_until: Time,
    pub(super) ppm: i64,
    pub(super) offset_us: i64,
    /// When it was promoted.
    pub(super) switched: Option<Time>,
    pub(super) keys: Keys,
    /// The data of its replica, if that differs from its own.
    pub(super) replica: Option<Keys>,
    /// It has the scripts.
    pub(super) scripts: bool,
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

/// The value of each key, and when it expires, in ms of the server's clock. Some values are fencing tokens.
pub(super) type Keys = BTreeMap<String, (String, u64)>;

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

    pub(super) fn track(&mut self, key: &str, peer: Peer) {
        let peers = self.tracked.entry(key.to_owned()).or_default();
        if !peers.contains(&peer) {
            peers.push(peer);
        }
    }

    /// The value of a key.
    pub(super) fn owner(&self, key: &str) -> Option<&str> {
        self.keys.get(key).map(|(token, _)| token.as_str())
    }
}
