//! The links between clients and nodes: first in, first out, slow at times; what becomes of the bytes that were under
//! way when one breaks, and of the deletes that it still owes.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::clock::Instant;
use crate::node::{Change, Claim, Fault};

use super::clock::Time;
use super::monitor::Valid;
use super::server::{Answer, Peer, Request};
use super::simulated::short;
use super::world::{Event, MS, World};

pub(super) type Reply = oneshot::Sender<Result<Answer, Fault>>;

struct Open {
    id: u64,
    request: Request,
    /// For how long a key that it should delete may live.
    ttl: Duration,
    /// Paid for the first time on a connection whose predecessor was dead: no key outlives this.
    until: Option<Instant>,
    answer: Reply,
}

/// A delete that was never confirmed.
struct Debt {
    claim: Claim,
    ttl: Duration,
    until: Option<Instant>,
}

/// What becomes of bytes that were under way when their connection broke.
#[derive(Clone, Copy)]
struct Fate {
    /// What would arrive later is lost.
    lost_from: Time,
    /// The rest lies in somebody's buffer until then.
    held_until: Time,
}

/// The client's end of a connection.
#[derive(Default)]
pub(super) struct Link {
    pub(super) up: bool,
    up_since: Time,
    epoch: u32,
    /// Of the server that it leads to.
    incarnation: u32,
    /// It leads to a replica, which writes nothing.
    to_replica: bool,
    /// Of each connection that broke.
    fates: Vec<Fate>,
    /// Connections before this one were killed on the server.
    killed: u32,
    /// FIFO: nothing overtakes in either direction.
    last_there: Time,
    last_back: Time,
    blocked_until: Time,
    /// Messages are slow until then.
    slow_until: Time,
    slow_by: Time,
    /// By then all that was ever slow has arrived.
    slow_over: Time,
    votes_from: Option<Instant>,
    open: VecDeque<Open>,
    owed: VecDeque<Debt>,
    /// Tokens whose vote never went out: there is nothing to delete.
    unsent: BTreeSet<Arc<str>>,
}

impl Link {
    fn owe(&mut self, request: &Request, ttl: Duration, until: Option<Instant>) {
        if let Request::Release { claim } = request
            && !self.unsent.contains(&claim.token)
            && self.owed.iter().all(|debt| debt.claim != *claim)
        {
            self.owed.push_back(Debt { claim: claim.clone(), ttl, until });
        }
    }
}

impl World {
    fn delay(&mut self, client: usize, node: usize) -> Time {
        let link = &self.links[client][node];
        let slow = if self.now < link.slow_until { link.slow_by } else { 0 };
        slow + self.rng.u64(self.latency / 4..=self.latency)
    }

    pub(super) fn send(
        &mut self,
        (client, node): (usize, usize),
        request: Request,
        ttl: Duration,
        until: Option<Instant>,
        answer: Reply,
    ) {
        if self.dead[client] {
            return;
        }
        if let Request::Release { claim } = &request {
            self.given_up.entry(claim.token.to_string()).or_insert((client, self.now));
        }
        let now = self.clocks[client].local(self.now);
        let link = &mut self.links[client][node];
        let young = link.votes_from.is_some_and(|from| now < from);
        let refused = match (link.up, request.is_first()) {
            (false, _) => Some("not connected"),
            (true, true) if young => Some("restarted too recently"),
            _ => None,
        };
        if let Some(why) = refused {
            if let Some(claim) = request.keeps().filter(|_| request.is_first()) {
                link.unsent.insert(Arc::clone(&claim.token));
            }
            link.owe(&request, ttl, until);
            let _ = answer.send(Err(Fault::new(why)));
            return;
        }
        if let Some(claim) = request.keeps() {
            link.unsent.remove(&claim.token);
        }
        let delay = self.delay(client, node);
        let id = self.new_id();
        let link = &mut self.links[client][node];
        link.open.push_back(Open { id, request: request.clone(), ttl, until, answer });
        link.last_there = link.last_there.max(self.now + delay);
        let (epoch, at, incarnation) = (link.epoch, link.last_there, link.incarnation);
        let peer = (client, epoch);
        self.at(at, Event::Arrive { peer, node, incarnation, id, request, there: false });
    }

    pub(super) fn arrive(&mut self, event: Event) {
        self.carry_out(event, false);
    }

    /// A stopped node goes on, with all that has arrived meanwhile, in its order.
    pub(super) fn thaw(&mut self, node: usize) {
        let until = self.servers[node].paused_until;
        if self.now < until {
            return self.at(until, Event::Thaw(node));
        }
        for event in std::mem::take(&mut self.servers[node].backlog) {
            self.carry_out(event, true);
        }
    }

    fn carry_out(&mut self, event: Event, thawed: bool) {
        let Event::Arrive { peer, node, incarnation, id, request, there } = event else { return };
        let (now, (client, epoch)) = (self.now, peer);
        let link = &self.links[client][node];
        let current = link.epoch == epoch;
        if epoch < link.killed {
            return;
        }
        if !current && !there {
            let fate = link.fates[epoch as usize];
            if now >= fate.lost_from {
                return;
            }
            if now < fate.held_until {
                let arrive = Event::Arrive { peer, node, incarnation, id, request, there: true };
                return self.at(fate.held_until, arrive);
            }
        }
        if self.links[client][node].to_replica && current {
            return self.refuse(peer, node, id);
        }
        let server = &mut self.servers[node];
        if server.incarnation != incarnation {
            if let Some((old, until)) = self.old.get_mut(&node)
                && old.incarnation == incarnation
                && now < *until
            {
                // It goes on for those who have not heard that it is none any more.
                let (answer, told) = old.run(&request, peer, now);
                self.log(|| {
                    format!("old node {node} <- client {client}: {} -> {answer:?}", short(&request))
                });
                let at = self.back(client, node);
                self.at(at, Event::Answer { client, node, epoch, id, answer });
                self.tell(node, told);
                return;
            }
            if current {
                let delay = self.delay(client, node);
                self.at(now + delay, Event::Broken { client, node, epoch });
            }
            return;
        }
        if now < server.paused_until || !thawed && !server.backlog.is_empty() {
            // It lies in the node's own buffer, whatever becomes of the connection.
            let until = server.paused_until;
            if server.backlog.is_empty() {
                self.at(until, Event::Thaw(node));
            }
            let arrive = Event::Arrive { peer, node, incarnation, id, request, there: true };
            self.servers[node].backlog.push_back(arrive);
            if !there && current {
                self.at(now + SILENCE, Event::Silent { client, node, epoch, id });
            }
            return;
        }
        let (answer, told) = server.run(&request, peer, now);
        self.log(|| format!("node {node} <- client {client}: {} -> {answer:?}", short(&request)));
        let at = self.back(client, node);
        self.at(at, Event::Answer { client, node, epoch, id, answer });
        self.tell(node, told);
    }

    /// A replica answers: READONLY.
    fn refuse(&mut self, (client, epoch): Peer, node: usize, id: u64) {
        let (answer, at) = (Answer::Refused, self.back(client, node));
        self.at(at, Event::Answer { client, node, epoch, id, answer });
        // It is as good as a broken connection.
        self.at(at, Event::Broken { client, node, epoch });
    }

    /// The node's replica takes its place.
    pub(super) fn switch(&mut self, node: usize, stale: Time, down: Time) {
        let now = self.now;
        let old = self.servers[node].switch(now);
        self.old.insert(node, (old, now + stale));
        for client in 0..self.clocks.len() {
            let epoch = self.links[client][node].epoch;
            let at = now + self.rng.u64(0..=stale);
            self.at(at, Event::Heard { client, node, epoch, down });
        }
    }

    pub(super) fn tell(&mut self, node: usize, told: Vec<(Peer, String)>) {
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
            && let Some(at) = link.open.iter().position(|open| open.id == id)
            && let Some(open) = link.open.remove(at)
        {
            let _ = open.answer.send(Ok(answer));
        }
    }

    /// A question that is open for so long is the end of its connection.
    pub(super) fn silent(&mut self, client: usize, node: usize, epoch: u32, id: u64) {
        let open = self.links[client][node].open.iter().any(|open| open.id == id);
        if open && self.is_current(client, node, epoch) {
            self.cut(client, node, 20 * MS);
        }
    }

    pub(super) fn is_current(&self, client: usize, node: usize, epoch: u32) -> bool {
        let link = &self.links[client][node];
        link.up && link.epoch == epoch && !self.dead[client]
    }

    /// Whether this node has answered this client soon since then.
    pub(super) fn sound(&self, client: usize, node: usize, since: Time) -> bool {
        let (link, server) = (&self.links[client][node], &self.servers[node]);
        link.up
            && link.incarnation == server.incarnation
            && !server.poisoned
            && link.up_since.max(link.slow_over).max(server.paused_until) <= since
            && link.votes_from.is_none_or(|from| self.clocks[client].local(since) >= from)
    }

    /// The connection ends; what was on its way may still arrive, perhaps long after. The client reconnects after
    /// `pause`.
    pub(super) fn cut(&mut self, client: usize, node: usize, pause: Time) {
        let now = self.now;
        // Bytes of a dead connection can lie in somebody's buffer for long.
        let longest = match self.rng.u8(..8) {
            0..=3 => self.latency * 2,
            4..=5 => 3_000 * MS,
            6 => 12_000 * MS,
            _ => 60_000 * MS,
        };
        let lost_from = now + self.rng.u64(0..=longest);
        let held_until = now + if self.rng.bool() { 0 } else { self.rng.u64(0..=longest) };
        let link = &mut self.links[client][node];
        if !link.up {
            link.blocked_until = link.blocked_until.max(now + pause);
            return;
        }
        link.up = false;
        link.fates.push(Fate { lost_from, held_until });
        link.epoch += 1;
        link.blocked_until = now + pause;
        let epoch = link.epoch;
        for Open { request, ttl, until, answer, .. } in std::mem::take(&mut link.open) {
            link.owe(&request, ttl, until);
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
        if self.now < link.blocked_until || self.now < server.paused_until {
            self.at(self.now + retry, Event::Connect { client, node, epoch });
            return;
        }
        // A sentinel that is behind leads to the server that was the primary; ROLE says that it is one no more.
        let behind = self.old.get(&node).is_some_and(|(_, until)| self.now < until + 300 * MS);
        let demoted = behind && self.rng.u8(..4) == 0;
        if demoted {
            self.at(self.now + retry, Event::Connect { client, node, epoch });
            return;
        }
        let server = &self.servers[node];
        let local = self.clocks[client].local(self.now);
        let uptime = Duration::from_secs(server.uptime_seconds(self.now));
        let quarantine = (self.guard.mul_f64(1.01) + Duration::from_secs(1)).saturating_sub(uptime);
        let quarantine = quarantine.max(self.new_for(node));
        let incarnation = self.servers[node].incarnation;
        let link = &mut self.links[client][node];
        link.up = true;
        (link.incarnation, link.to_replica) = (incarnation, demoted);
        (link.up_since, link.last_there, link.last_back) = (self.now, self.now, self.now);
        link.votes_from = (!self.guard.is_zero()).then(|| local + quarantine);
        // Before any debt is paid: nothing that the former connection still carries can come after its delete.
        if self.kills {
            link.killed = link.epoch;
        }
        for Debt { claim, ttl, until } in std::mem::take(&mut link.owed) {
            let until = until.unwrap_or(local + ttl);
            if until > local {
                let request = Request::Release { claim };
                self.send((client, node), request, ttl, Some(until), oneshot::channel().0);
            }
        }
        if let Some(watch) = &self.watches[client] {
            watch.changed(Change::All);
        }
    }

    /// How long a server that took another's place is too new to take first votes: by the sentinels' word.
    fn new_for(&self, node: usize) -> Duration {
        let Some(switched) = self.servers[node].switched else { return Duration::ZERO };
        let age = Duration::from_nanos(self.now - switched);
        (self.guard.mul_f64(1.01) + HEARD).saturating_sub(age)
    }

    /// Whether every lease outlives the loss of what this node has: so many others have its keys for as long as it
    /// is valid that no quorum is left for anybody else. Not while an answer that might count is under way.
    pub(super) fn survives_flush(&self, node: usize, valid: &[Valid]) -> bool {
        let open = self.links.iter().flatten().flat_map(|link| &link.open);
        let mut tokens = open.filter_map(|open| open.request.keeps()).map(|claim| &*claim.token);
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
        link.slow_over = link.slow_over.max(self.now + length + by + 2 * self.latency);
    }
}

/// By then every client has left the server before: `context::HEARD`.
const HEARD: Duration = Duration::from_secs(2);
/// A connection on which nothing was read for so long, with questions open, is given up.
const SILENCE: Time = 1_200 * MS;
