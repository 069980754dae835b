//! The way of a question to its node and of the answer back: first in, first out, slow at times.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::clock::Instant;
use crate::node::Fault;

use super::clock::Time;
use super::link::Open;
use super::request::{Answer, Peer, Request};
use super::simulated::short;
use super::world::{Event, MS, World};

pub(super) type Reply = oneshot::Sender<Result<Answer, Fault>>;

impl World {
    pub(super) fn delay(&mut self, client: usize, node: usize) -> Time {
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

    pub(super) fn tell(&mut self, node: usize, told: Vec<(Peer, String)>) {
        for ((client, epoch), key) in told {
            let at = self.back(client, node);
            self.at(at, Event::Push { client, node, epoch, key });
        }
    }

    pub(super) fn back(&mut self, client: usize, node: usize) -> Time {
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
}

/// A connection on which nothing was read for so long, with questions open, is given up.
const SILENCE: Time = 1_200 * MS;
