//! Carries requests to a node and replies back, in order and sometimes slowly.

use std::sync::Arc;

use tokio::sync::oneshot;

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

    pub(super) fn send(&mut self, (client, node): (usize, usize), mut open: Open) {
        if self.dead[client] {
            return;
        }
        if let Request::Release { claim, stay } = &open.request {
            let gone = self.now + u64::try_from(stay.as_nanos()).unwrap();
            let given_up = self.given_up.entry(claim.token.to_string()).or_insert((client, gone));
            if !stay.is_zero() {
                given_up.1 = given_up.1.max(gone);
            }
            let lately = self.deletes.entry((client, Arc::clone(&claim.token))).or_default();
            *lately = if self.now < lately.0 + 100 * MS {
                (lately.0, lately.1 + 1)
            } else {
                (self.now, 1)
            };
            self.storm |= lately.1 > STORM;
        }
        let now = self.clocks[client].local(self.now);
        let link = &mut self.links[client][node];
        if open.answer.is_closed() && open.purpose.requires_waiting_caller(open.redirects) {
            // No caller waits for the vote any more. Its delete may already have been sent, so the vote must not
            // follow.
            return link.unsent.extend(open.request.keeps().map(|claim| Arc::clone(&claim.token)));
        }
        let young = link.votes_from.max(link.slot_from).is_some_and(|from| now < from);
        let refused = match (link.up, open.request.is_first()) {
            (false, _) => Some("not connected"),
            (true, true) if young => Some("restarted too recently"),
            _ => None,
        };
        if let Some(why) = refused {
            if let Some(claim) = open.request.keeps().filter(|_| open.request.is_first()) {
                link.unsent.insert(Arc::clone(&claim.token));
            }
            return self.unanswered(client, node, open, why);
        }
        if let Some(claim) = open.request.keeps() {
            link.unsent.remove(&claim.token);
        }
        if let Some(confirm) = &mut link.confirm {
            open.confirm_by = confirm.sending(&open.purpose, open.timeout, now);
        }
        let delay = self.delay(client, node);
        open.id = self.new_id();
        let (id, mut request) = (open.id, open.request.clone());
        if open.redirects.asking {
            request = Request::Asking(Box::new(request));
        }
        let link = &mut self.links[client][node];
        link.open.push_back(open);
        link.last_there = link.last_there.max(self.now + delay);
        let (epoch, at, incarnation) = (link.epoch, link.last_there, link.incarnation);
        let peer = (client, epoch);
        self.at(at, Event::Arrive { peer, node, incarnation, id, request, there: false });
        self.request_confirmation(client, node);
    }

    pub(super) fn arrive(&mut self, event: Event) {
        self.carry_out(event, false);
    }

    /// A stopped node continues and runs all requests that have arrived meanwhile, in order.
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
        if self.servers[node].incarnation != incarnation {
            let old = self.server_of(node, incarnation).is_some();
            if old {
                // The old primary still serves the clients that have not learned of its demotion.
                let arrive = Event::Arrive { peer, node, incarnation, id, request, there };
                self.execute(arrive);
            } else if current {
                let delay = self.delay(client, node);
                self.at(now + delay, Event::Broken { client, node, epoch });
            }
            return;
        }
        let server = &mut self.servers[node];
        if now < server.paused_until || !thawed && !server.backlog.is_empty() {
            // The request is in the node's own buffer and does not depend on the connection.
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
        self.execute(Event::Arrive { peer, node, incarnation, id, request, there });
    }

    /// Runs the request on the server that it was sent to.
    pub(super) fn execute(&mut self, event: Event) {
        let Event::Arrive { peer, node, incarnation, id, ref request, .. } = event else { return };
        let (now, (client, epoch)) = (self.now, peer);
        // A request that waited behind a `WAIT` ends with its connection.
        if epoch < self.links[client][node].killed {
            return;
        }
        let Some(server) = self.server_of(node, incarnation) else { return };
        if let Some(waiting) = server.waits.iter_mut().find(|waiting| waiting.peer == peer) {
            // The server runs no later request of this connection before its `WAIT` ends.
            return waiting.behind.push_back(event);
        }
        if let Request::Wait { replicas, time } = *request {
            return self.wait(peer, (node, incarnation), id, (replicas, time));
        }
        let (request, asks) = match request {
            Request::Asking(inner) => (&**inner, true),
            request => (request, false),
        };
        let (answer, pushes) = match (server.redirect(request, asks, now), request) {
            (Some(redirect), _) => (Answer::Sent(redirect), Vec::new()),
            (None, Request::Slots { .. }) => {
                let (owner, epoch) = server.sees(node);
                (Answer::Slots(owner, epoch), Vec::new())
            }
            (None, request) => server.run(request, peer, now),
        };
        let old = if self.servers[node].incarnation == incarnation { "" } else { "old " };
        self.log(|| {
            format!("{old}node {node} <- client {client}: {} -> {answer:?}", short(request))
        });
        let at = self.reply_time(client, node);
        self.at(at, Event::Answer { client, node, epoch, id, answer });
        self.send_pushes(node, pushes);
    }

    /// Notifies the clients that track these keys, and sends the write to the server's replicas.
    pub(super) fn send_pushes(&mut self, node: usize, pushes: Vec<(Peer, String)>) {
        self.replicate(node);
        for ((client, epoch), key) in pushes {
            let at = self.reply_time(client, node);
            self.at(at, Event::Push { client, node, epoch, key });
        }
    }

    pub(super) fn reply_time(&mut self, client: usize, node: usize) -> Time {
        let delay = self.delay(client, node);
        let link = &mut self.links[client][node];
        link.last_back = link.last_back.max(self.now + delay);
        link.last_back
    }
}

/// A client that deletes one token more often than this within 100 ms breaks a promise.
const STORM: u32 = 50;
/// A connection with open requests is closed after this time without a received byte.
const SILENCE: Time = 1_200 * MS;
