//! Virtual time: what happens next, and everything that tasks and events share.

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
    /// `there`: nothing but the node's own end keeps it from being carried out.
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
    /// The client hears that the node's server is another one.
    Heard {
        client: usize,
        node: usize,
        epoch: u32,
        down: Time,
    },
    Thaw(usize),
    /// What a server wrote reaches a replica; of that the server hears `Acked` from it.
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
    /// To a cluster's own task, from one of its connections.
    Stray {
        client: usize,
        place: usize,
        id: u64,
    },
    Drain {
        client: usize,
        place: usize,
        age: u64,
    },
    Survey {
        client: usize,
        place: usize,
    },
    Surveyed {
        client: usize,
        place: usize,
        survey: u64,
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
    /// All replicas have everything, whatever they had before.
    Resync {
        node: usize,
        incarnation: u32,
    },
    Step(usize),
    Look,
    Wake(u64),
    Resume(usize),
}

pub(super) struct World {
    pub(super) now: Time,
    pub(super) rng: Rng,
    pub(super) latency: Time,
    pub(super) guard: Duration,
    /// Servers let a client kill its former connection.
    pub(super) kills: bool,
    /// What clients ask of each grant.
    pub(super) durability: Durability,
    /// How often each token was deleted lately, by each client, and since when; whether that was far too often.
    pub(super) deletes: BTreeMap<(usize, Arc<str>), (Time, u32)>,
    pub(super) storm: bool,
    /// Tokens whose deletes were given out, by which client and when.
    pub(super) given_up: BTreeMap<String, (usize, Time)>,
    /// Of a node that is a cluster, each a distance of all nodes from the one before; else one.
    pub(super) servers: Vec<Server>,
    /// How many each node has.
    pub(super) shards: usize,
    /// By client and node; none where nodes are no clusters.
    pub(super) clusters: Vec<Vec<Cluster>>,
    /// Since when each cluster's slot has been where it is; never, while it is on its way.
    pub(super) settled: Vec<Time>,
    /// Those that others took the place of, until when they live, still as primaries.
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

    /// The next event, with time moved to it.
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
