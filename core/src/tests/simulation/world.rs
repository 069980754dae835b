//! Virtual time: the next events, and the state that tasks and events share.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use fastrand::Rng;

use crate::node::{Durability, Watch};

use super::clock::{Rate, Time};
use super::link::Link;
use super::replicas::Copy;
use super::request::{Answer, Peer, Request};
use super::router::Cluster;
use super::server::Server;
use super::slots::Stage;

pub(super) const MS: Time = 1_000_000;
/// No run lasts this long.
pub(super) const END: Time = 3_600_000 * MS;

#[derive(Clone, Debug)]
pub(super) enum Event {
    /// A request arrives at a node. With `there`, it is in the node's own buffer, so only a restart of the node
    /// prevents its execution.
    Arrive {
        peer: Peer,
        node: usize,
        incarnation: u32,
        id: u64,
        request: Request,
        there: bool,
    },
    Answer {
        client: usize,
        node: usize,
        epoch: u32,
        id: u64,
        answer: Answer,
    },
    Push {
        client: usize,
        node: usize,
        epoch: u32,
        key: String,
    },
    Broken {
        client: usize,
        node: usize,
        epoch: u32,
    },
    Silent {
        client: usize,
        node: usize,
        epoch: u32,
        id: u64,
    },
    Connect {
        client: usize,
        node: usize,
        epoch: u32,
    },
    /// The client learns that the node has another server.
    ServerChanged {
        client: usize,
        node: usize,
        epoch: u32,
        down: Time,
    },
    Thaw(usize),
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
    /// A message to a cluster task from one of its connections.
    ClusterMessage {
        client: usize,
        place: usize,
        id: u64,
    },
    QueryAll {
        client: usize,
        place: usize,
    },
    DiscoveryEnded {
        client: usize,
        place: usize,
        discovery: u64,
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
    /// Tokens whose deletes were sent, with the client and the time.
    pub(super) given_up: BTreeMap<String, (usize, Time)>,
    /// All servers, by place. The server at place `p` belongs to the node `p % nodes`.
    pub(super) servers: Vec<Server>,
    /// Servers per node.
    pub(super) shards: usize,
    /// By client and node. Empty if nodes are not clusters.
    pub(super) clusters: Vec<Vec<Cluster>>,
    /// Since when each cluster's slot has had its current owner. `Time::MAX` while it is being moved.
    pub(super) settled: Vec<Time>,
    /// Replaced servers that still act as primaries, and until when.
    pub(super) old: BTreeMap<usize, (Server, Time)>,
    pub(super) links: Vec<Vec<Link>>,
    pub(super) clocks: Vec<Rate>,
    pub(super) watches: Vec<Option<Arc<Watch>>>,
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
            given_up: BTreeMap::new(),
            servers: Vec::new(),
            shards: 1,
            clusters: Vec::new(),
            settled: Vec::new(),
            old: BTreeMap::new(),
            links: Vec::new(),
            clocks: Vec::new(),
            watches: Vec::new(),
            dead: Vec::new(),
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            wakers: BTreeMap::new(),
            next: 0,
            trace: Vec::new(),
            tracing: false,
        }
    }

    pub(super) fn new_id(&mut self) -> u64 {
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

    /// Removes the next event and advances the time to it.
    pub(super) fn pop(&mut self) -> Option<Event> {
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
