//! Virtual time: the next events, and the state that tasks and events share.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use fastrand::Rng;

use crate::node::fence_key;
use crate::node::{Claim, Durability, slot};

use super::clock::{Rate, Time};
use super::link::Link;
use super::net::{Conn, QUORUM};
use super::replicas::Copy;
use super::semaphores::POOL;
use super::sentinels::Sentinel;
use super::server::Server;
use super::slots::{Slots, Stage};

pub(super) const MS: Time = 1_000_000;
/// No run lasts this long.
pub(super) const END: Time = 3_600_000 * MS;

#[derive(Clone, Debug)]
pub(super) enum Event {
    /// Bytes arrive at a server. If they were `held` back, only a restart of the server prevents that.
    Arrive {
        conn: usize,
        bytes: Vec<u8>,
        held: bool,
    },
    /// Bytes arrive at a client.
    Back {
        conn: usize,
        bytes: Vec<u8>,
    },
    /// The client learns that the server has closed the connection.
    Closed {
        conn: usize,
    },
    /// The server learns that the client has closed the connection.
    Hangup {
        conn: usize,
    },
    /// A stopped server continues to read.
    Thaw {
        conn: usize,
    },
    SentinelLearns {
        node: usize,
        index: usize,
        address: u32,
    },
    /// A write reaches a replica, which confirms it with `Acked`.
    Replicated {
        node: usize,
        incarnation: u32,
        replica: usize,
        copy: Copy,
    },
    Acked {
        node: usize,
        incarnation: u32,
        replica: usize,
        offset: u64,
    },
    Migrates {
        stage: Stage,
        from: usize,
        to: usize,
        length: Time,
    },
    /// A `WAIT` may be over.
    Waited {
        node: usize,
        incarnation: u32,
    },
    /// All replicas get all data, whatever they had before.
    Resync {
        node: usize,
        incarnation: u32,
    },
    Step(usize),
    CheckProgress,
    Wake(u64),
    Resume(usize),
}

pub(super) struct World {
    pub(super) now: Time,
    pub(super) rng: Rng,
    pub(super) latency: Time,
    pub(super) guard: Duration,
    /// Servers allow a client to kill its previous connection.
    pub(super) kills: bool,
    /// The durability that clients require for each grant.
    pub(super) durability: Durability,
    /// How often each client deleted each token recently, since when, and whether that was far too often.
    pub(super) deletes: BTreeMap<(usize, Arc<str>), (Time, u32)>,
    pub(super) storm: bool,
    /// A client sent bytes that are not a request.
    pub(super) garbled: bool,
    /// Tokens whose deletes were requested, with the client and the time.
    pub(super) given_up: BTreeMap<String, (usize, Time)>,
    /// The deletes that a server could not run, because it did not know their script.
    pub(super) unknown_deletes: BTreeSet<(usize, String)>,
    /// All servers, by place. The server at place `p` belongs to the node `p % nodes`.
    pub(super) servers: Vec<Server>,
    /// The slots that a cluster reports.
    pub(super) slots_of: Slots,
    /// The slots of the keys in a cluster.
    pub(super) slots: Vec<i64>,
    /// Servers per node.
    pub(super) shards: usize,
    /// All connections of the run.
    pub(super) conns: Vec<Conn>,
    /// By node. Empty if no sentinels find the servers.
    pub(super) sentinels: Vec<[Sentinel; QUORUM]>,
    /// Faults that every scenario has, unless it measures a time.
    pub(super) faults: bool,
    /// Each client keeps all its pending deletes.
    pub(super) keeps_deletes: bool,
    /// Clients must log in, and their logins expire.
    pub(super) logins: bool,
    /// Some server has refused logins. An acquire may end early while a client knows nothing newer.
    pub(super) logins_refused: bool,
    /// Kept for its memory.
    pub(super) reply_buffer: Vec<u8>,
    /// Since when each cluster's slot has had its current owner. `Time::MAX` while it is being moved.
    pub(super) settled: Vec<Time>,
    /// When each cluster's slot began to move again, if it had moved just before. A delete that follows an `ASK` may
    /// then reach the server that the key has left.
    pub(super) moved_again: Vec<Time>,
    /// By client and node: whether it declines first votes, at the last check.
    pub(super) declines: Vec<Vec<bool>>,
    /// Replaced servers that still act as primaries, and until when.
    pub(super) old: BTreeMap<usize, (Server, Time)>,
    pub(super) links: Vec<Vec<Link>>,
    pub(super) clocks: Vec<Rate>,
    pub(super) dead: Vec<bool>,
    queue: BinaryHeap<Reverse<(Time, u64)>>,
    events: BTreeMap<u64, Event>,
    wakers: BTreeMap<u64, Waker>,
    next: u64,
    pub(super) trace: Vec<String>,
    pub(super) tracing: bool,
}

impl World {
    pub(super) fn new(seed: u64, latency: Time, guard: Duration, kills: bool) -> Self {
        Self {
            now: 0,
            rng: Rng::with_seed(seed ^ 0x5eed),
            latency,
            guard,
            kills,
            durability: Durability::default(),
            deletes: BTreeMap::new(),
            storm: false,
            garbled: false,
            given_up: BTreeMap::new(),
            unknown_deletes: BTreeSet::new(),
            servers: Vec::new(),
            slots_of: Slots::Locks,
            slots: slots(),
            shards: 1,
            conns: Vec::new(),
            sentinels: Vec::new(),
            faults: true,
            keeps_deletes: true,
            logins: false,
            logins_refused: false,
            reply_buffer: Vec::new(),
            settled: Vec::new(),
            moved_again: Vec::new(),
            declines: Vec::new(),
            old: BTreeMap::new(),
            links: Vec::new(),
            clocks: Vec::new(),
            dead: Vec::new(),
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            wakers: BTreeMap::new(),
            next: 0,
            trace: Vec::new(),
            tracing: false,
        }
    }

    /// A client begins to delete the keys of a claim.
    pub(super) fn gives_up(&mut self, client: usize, claim: &Claim, stay: Duration) {
        let gone = self.now + u64::try_from(stay.as_nanos()).unwrap();
        let given_up = self.given_up.entry(claim.token.to_string()).or_insert((client, gone));
        if !stay.is_zero() {
            given_up.1 = given_up.1.max(gone);
        }
    }

    fn new_id(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub(super) fn at(&mut self, time: Time, event: Event) {
        let id = self.new_id();
        self.queue.push(Reverse((time.max(self.now), id)));
        self.events.insert(id, event);
    }

    pub(super) fn wake_at(&mut self, time: Time, waker: Waker) {
        let id = self.next + 1;
        self.at(time, Event::Wake(id));
        self.wakers.insert(id, waker);
    }

    /// Removes the next event and advances the time to it. Without an event until `end`, advances the time to that.
    pub(super) fn pop_until(&mut self, end: Time) -> Option<Event> {
        if self.queue.peek().is_none_or(|Reverse((time, _))| *time > end) {
            self.now = self.now.max(end);
            return None;
        }
        let Reverse((time, id)) = self.queue.pop()?;
        self.now = self.now.max(time);
        self.events.remove(&id)
    }

    pub(super) fn take_waker(&mut self, id: u64) -> Option<Waker> {
        self.wakers.remove(&id)
    }

    pub(super) fn log(&mut self, line: impl FnOnce() -> String) {
        if self.tracing {
            let line = format!("{:>10.3} ms  {}", self.now as f64 / 1e6, line());
            self.trace.push(line);
        }
    }
}

/// The slots of both locks and of the semaphore, in order.
fn slots() -> Vec<i64> {
    let fences = ["a", "b"].map(|name| fence_key(name).unwrap());
    let keys = fences.iter().map(String::as_str).chain(["a", "b", POOL]);
    let slots: BTreeSet<i64> = keys.map(|key| slot(key).into()).collect();
    slots.into_iter().collect()
}
