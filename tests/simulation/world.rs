//! Virtual time, the network between clients and nodes, and the nodes' view of it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::Duration;

use fastrand::Rng;
use tokio::sync::oneshot;

use crate::clock::Instant;
use crate::node::{
    Ask, Change, Claim, Extension, Fault, Fencing, Holder, Node, Reply, Vote, Watch,
};

use super::clock::{Rate, Time};
use super::monitor::Valid;
use super::server::{Answer, Request, Server};

pub(super) const MS: Time = 1_000_000;
/// No run lasts this long.
pub(super) const END: Time = 3_600_000 * MS;

#[derive(Clone, Debug)]
pub(super) enum Event {
    Arrive { client: usize, node: usize, epoch: u32, incarnation: u32, id: u64, request: Request },
    Answer { client: usize, node: usize, epoch: u32, id: u64, answer: Answer },
    Push { client: usize, node: usize, epoch: u32, key: String },
    Broken { client: usize, node: usize, epoch: u32 },
    Connect { client: usize, node: usize, epoch: u32 },
    Step(usize),
    Wake(u64),
    Resume(usize),
}

/// The client's end of a connection.
#[derive(Default)]
pub(super) struct Link {
    up: bool,
    epoch: u32,
    /// FIFO: nothing overtakes in either direction.
    last_there: Time,
    last_back: Time,
    /// Requests of the ended epoch that arrive later than this are lost.
    cut_at: Time,
    blocked_until: Time,
    /// Messages are slow until then.
    slow_until: Time,
    slow_by: Time,
    votes_from: Option<Instant>,
    open: VecDeque<(u64, Request, Instant, oneshot::Sender<Result<Answer, Fault>>)>,
    owed: VecDeque<(Request, Instant)>,
}

pub(super) struct World {
    pub(super) now: Time,
    pub(super) rng: Rng,
    pub(super) latency: Time,
    pub(super) guard: Duration,
    pub(super) servers: Vec<Server>,
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
    pub(super) fn new(seed: u64, latency: Time, guard: Duration) -> Self {
        Self {
            now: 0,
            rng: Rng::with_seed(seed ^ 0x5eed),
            latency,
            guard,
            servers: Vec::new(),
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

    pub(super) fn at(&mut self, time: Time, event: Event) {
        self.next += 1;
        self.queue.push(Reverse((time.max(self.now), self.next)));
        self.events.insert(self.next, event);
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

    fn delay(&mut self, client: usize, node: usize) -> Time {
        let link = &self.links[client][node];
        let slow = if self.now < link.slow_until { link.slow_by } else { 0 };
        slow + self.rng.u64(self.latency / 4..=self.latency)
    }

    fn send(
        &mut self,
        client: usize,
        node: usize,
        request: Request,
        until: Instant,
        answer: oneshot::Sender<Result<Answer, Fault>>,
    ) {
        if self.dead[client] {
            return;
        }
        let now = self.clocks[client].local(self.now);
        let link = &mut self.links[client][node];
        if !link.up {
            if matches!(request, Request::Release { .. }) && until > now {
                link.owed.push_back((request, until));
            }
            let _ = answer.send(Err(Fault::new("not connected")));
            return;
        }
        let young = link.votes_from.is_some_and(|from| now < from);
        if request.is_first() && young {
            let _ = answer.send(Err(Fault::new("restarted too recently")));
            return;
        }
        let delay = self.delay(client, node);
        self.next += 1;
        let id = self.next;
        let link = &mut self.links[client][node];
        link.open.push_back((id, request.clone(), until, answer));
        link.last_there = link.last_there.max(self.now + delay);
        let (epoch, at) = (link.epoch, link.last_there);
        let incarnation = self.servers[node].incarnation;
        self.at(at, Event::Arrive { client, node, epoch, incarnation, id, request });
    }

    pub(super) fn arrive(&mut self, event: Event) {
        let Event::Arrive { client, node, epoch, incarnation, id, request } = event else { return };
        let (now, link) = (self.now, &self.links[client][node]);
        let current = link.epoch == epoch;
        if !current && now > link.cut_at {
            return;
        }
        let server = &mut self.servers[node];
        if !server.up || server.incarnation != incarnation {
            if current {
                let delay = self.delay(client, node);
                self.at(now + delay, Event::Broken { client, node, epoch });
            }
            return;
        }
        if now < server.paused_until {
            let until = server.paused_until;
            self.at(until, Event::Arrive { client, node, epoch, incarnation, id, request });
            return;
        }
        let (answer, told) = server.run(&request, (client, epoch), now);
        self.log(|| format!("node {node} <- client {client}: {} -> {answer:?}", short(&request)));
        let at = self.back(client, node);
        self.at(at, Event::Answer { client, node, epoch, id, answer });
        self.tell(node, told);
    }

    pub(super) fn tell(&mut self, node: usize, told: Vec<((usize, u32), String)>) {
        for ((client, epoch), key) in told {
            let at = self.back(client, node);
            self.at(at, Event::Push { client, node, epoch, key });
        }
    }

    fn back(&mut self, client: usize, node: usize) -> Time {
        let delay = self.delay(client, node);
        let link = &mut self.links[client][node];
        link.last_back = link.last_back.max(self.now + delay);
        link.last_back
    }

    pub(super) fn answered(
        &mut self,
        client: usize,
        node: usize,
        epoch: u32,
        id: u64,
        answer: Answer,
    ) {
        let link = &mut self.links[client][node];
        if link.epoch == epoch
            && let Some(at) = link.open.iter().position(|open| open.0 == id)
            && let Some((_, _, _, waiting)) = link.open.remove(at)
        {
            let _ = waiting.send(Ok(answer));
        }
    }

    pub(super) fn is_current(&self, client: usize, node: usize, epoch: u32) -> bool {
        let link = &self.links[client][node];
        link.up && link.epoch == epoch && !self.dead[client]
    }

    /// The connection ends; what was on its way may still arrive for a while. The client reconnects after `pause`.
    pub(super) fn cut(&mut self, client: usize, node: usize, pause: Time) {
        // Bytes of a dead connection can lie in somebody's buffer for long.
        let longest = if self.rng.bool() { self.latency * 2 } else { 3000 * MS };
        let (now, in_flight) = (self.now, self.rng.u64(0..=longest));
        let local = self.clocks[client].local(now);
        let link = &mut self.links[client][node];
        if !link.up {
            link.blocked_until = link.blocked_until.max(now + pause);
            return;
        }
        link.up = false;
        link.epoch += 1;
        link.cut_at = now + in_flight;
        link.blocked_until = now + pause;
        let epoch = link.epoch;
        for (_, request, until, answer) in std::mem::take(&mut link.open) {
            if matches!(request, Request::Release { .. }) && until > local {
                link.owed.push_back((request, until));
            }
            let _ = answer.send(Err(Fault::new("the connection broke")));
        }
        self.at(now + pause, Event::Connect { client, node, epoch });
        if let Some(watch) = &self.watches[client] {
            watch.changed(Change::All);
        }
    }

    pub(super) fn connect(&mut self, client: usize, node: usize, epoch: u32) {
        let link = &self.links[client][node];
        if link.up || link.epoch != epoch || self.dead[client] {
            return;
        }
        let retry = self.rng.u64(10 * MS..200 * MS);
        let server = &self.servers[node];
        if self.now < link.blocked_until || !server.up || self.now < server.paused_until {
            self.at(self.now + retry, Event::Connect { client, node, epoch });
            return;
        }
        let local = self.clocks[client].local(self.now);
        let uptime = Duration::from_secs(server.uptime_seconds(self.now));
        let quarantine = (self.guard.mul_f64(1.01) + Duration::from_secs(1)).saturating_sub(uptime);
        let link = &mut self.links[client][node];
        link.up = true;
        (link.last_there, link.last_back) = (self.now, self.now);
        link.votes_from = (!self.guard.is_zero()).then(|| local + quarantine);
        for (request, until) in std::mem::take(&mut link.owed) {
            if until > local {
                self.send(client, node, request, until, oneshot::channel().0);
            }
        }
        if let Some(watch) = &self.watches[client] {
            watch.changed(Change::All);
        }
    }

    /// Whether every lease outlives the loss of what this node has: so many others have its keys for as long as it
    /// is valid that no quorum is left for anybody else. Not while an answer that might count is under way.
    pub(super) fn survives_flush(&self, node: usize, valid: &[Valid]) -> bool {
        let open = self.links.iter().flatten().flat_map(|link| &link.open);
        let mut tokens = open.filter_map(|(_, request, ..)| match request {
            Request::Attempt { claim, .. }
            | Request::Acquire { claim, .. }
            | Request::Extend { claim, .. } => Some(&*claim.token),
            Request::Release { .. } => None,
        });
        let has = |node: usize, token: &str| self.servers[node].has_until(token);
        let needed = self.servers.len() - self.servers.len() / 2;
        let kept = |lease: &Valid| {
            let others = (0..self.servers.len()).filter(|other| *other != node);
            let lasting = others.filter_map(|other| has(other, &lease.token));
            lasting.filter(|until| !(lease.at)(*until)).count() >= needed
        };
        tokens.all(|token| has(node, token).is_none())
            && valid.iter().all(|lease| has(node, &lease.token).is_none() || kept(lease))
    }

    pub(super) fn slow(&mut self, client: usize, node: usize, by: Time, length: Time) {
        let link = &mut self.links[client][node];
        (link.slow_until, link.slow_by) = (self.now + length, by);
    }
}

/// A request without the noise of its token.
pub(super) fn short(request: &Request) -> String {
    match request {
        Request::Acquire { claim, ttl, fencing, first } => {
            format!("acquire {:?} ttl {ttl:?} {} {first}", claim.keys, *fencing != Fencing::Off)
        }
        Request::Attempt { claim, ttl, first } => {
            format!("attempt {:?} ttl {ttl:?} {first}", claim.keys)
        }
        Request::Extend { claim, ttl, .. } => format!("extend {:?} ttl {ttl:?}", claim.keys),
        Request::Release { claim } => format!("release {:?}", claim.keys),
    }
}

/// A node as one client sees it.
#[derive(Clone)]
pub(super) struct SimulatedNode {
    pub(super) world: Arc<Mutex<World>>,
    pub(super) client: usize,
    pub(super) node: usize,
    pub(super) url: String,
}

impl SimulatedNode {
    fn ask<T: Send + 'static>(
        &self,
        request: Request,
        owed: Duration,
        read: fn(Answer) -> Option<T>,
    ) -> Reply<T> {
        let (answer, reply) = oneshot::channel();
        let mut world = self.world.lock().unwrap();
        let until = world.clocks[self.client].local(world.now) + owed;
        world.send(self.client, self.node, request, until, answer);
        drop(world);
        Box::pin(async move {
            match reply.await {
                Ok(answer) => {
                    answer.and_then(|answer| read(answer).ok_or_else(|| Fault::new("odd")))
                }
                Err(_) => Err(Fault::new("the client is gone")),
            }
        })
    }
}

impl Node for SimulatedNode {
    fn url(&self) -> &str {
        &self.url
    }

    fn pushes(&self) -> bool {
        self.world.lock().unwrap().links[self.client][self.node].up
    }

    fn acquire(&self, claim: &Claim, ask: Ask) -> Reply<Vote> {
        let Ask { ttl, fencing, first, likely, .. } = ask;
        let vote = |answer| if let Answer::Vote(vote) = answer { Some(vote) } else { None };
        let script = Request::Acquire { claim: claim.clone(), ttl, fencing, first };
        if !likely || claim.keys.len() > 1 || fencing != Fencing::Off {
            return self.ask(script, ttl, vote);
        }
        let attempt = self.ask(Request::Attempt { claim: claim.clone(), ttl, first }, ttl, vote);
        let node = self.clone();
        Box::pin(async move {
            match attempt.await? {
                granted @ Vote::Granted(_) => Ok(granted),
                Vote::Held(_) => node.ask(script, ttl, vote).await,
            }
        })
    }

    fn extend(&self, claim: &Claim, ask: Ask) -> Reply<Extension> {
        let request = Request::Extend { claim: claim.clone(), ttl: ask.ttl, fencing: ask.fencing };
        self.ask(request, ask.ttl, |answer| {
            if let Answer::Extension(extension) = answer { Some(extension) } else { None }
        })
    }

    fn release(&self, claim: &Claim, owed: Duration) -> Reply<bool> {
        let request = Request::Release { claim: claim.clone() };
        self.ask(
            request,
            owed,
            |answer| if let Answer::Released(ours) = answer { Some(ours) } else { None },
        )
    }

    fn inspect(&self, _key: &str) -> Reply<Option<Holder>> {
        Box::pin(std::future::ready(Err(Fault::new("not simulated"))))
    }

    fn force_release(&self, _keys: &[String]) -> Reply<bool> {
        Box::pin(std::future::ready(Err(Fault::new("not simulated"))))
    }
}
