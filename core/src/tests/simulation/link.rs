//! One client's connection to one node: its state, the messages that it carried when it broke, and its pending deletes.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::clock::Instant;
use crate::node::{Change, Claim, Confirmations, Fault, Purpose, Redirects};

use super::clock::Time;
use super::network::Reply;
use super::request::{Answer, Request};
use super::router::ClusterMessage;
use super::world::{Event, MS, World};

/// A request whose reply is outstanding.
pub(super) struct Open {
    pub(super) id: u64,
    pub(super) request: Request,
    /// What happens when the connection breaks. For a delete it includes when its keys have expired. That time is
    /// counted from the next connection, because the previous one may carry votes until then.
    pub(super) purpose: Purpose,
    /// How long the caller waits for the reply.
    pub(super) timeout: Duration,
    pub(super) answer: Reply,
    /// A grant counts only if replicas confirm it by this time.
    pub(super) confirm_by: Option<Instant>,
    /// The route that it took, if another server of a cluster received it first.
    pub(super) redirects: Redirects,
}

impl Open {
    pub(super) fn new(
        request: Request,
        timeout: Duration,
        lifetime: Duration,
        answer: Reply,
    ) -> Self {
        let token = |claim: &Claim| Arc::clone(&claim.token);
        let purpose = match &request {
            Request::Attempt { claim, .. } | Request::Acquire { claim, first: true, .. } => {
                Purpose::FirstVote { token: token(claim), sent: false }
            }
            Request::Acquire { claim, .. } => Purpose::Heal(token(claim)),
            Request::Extend { check: false, .. } => Purpose::Extend,
            Request::Release { claim, .. } => Purpose::delete(token(claim), lifetime),
            Request::Wait { .. } => Purpose::Confirm,
            // Needs no special handling when it ends.
            _ => Purpose::Plain,
        };
        let (confirm_by, redirects) = (None, Redirects::default());
        Self { id: 0, request, purpose, timeout, answer, confirm_by, redirects }
    }

    /// A request whose reply no caller waits for.
    pub(super) fn without_caller(request: Request, lifetime: Duration) -> Self {
        Self::new(request, Duration::ZERO, lifetime, oneshot::channel().0)
    }
}

/// A pending delete, which the server has not confirmed.
pub(super) struct PendingDelete {
    request: Request,
    ttl: Duration,
    until: Option<Instant>,
}

/// What happens to the bytes that were in flight when their connection broke.
#[derive(Clone, Copy)]
pub(super) struct Fate {
    /// Bytes that would arrive after this time are lost.
    pub(super) lost_from: Time,
    /// The remaining bytes stay in a network buffer until then.
    pub(super) held_until: Time,
}

/// The client's end of a connection.
#[derive(Default)]
pub(super) struct Link {
    pub(super) up: bool,
    pub(super) up_since: Time,
    pub(super) epoch: u32,
    /// Incarnation of the server at the other end.
    pub(super) incarnation: u32,
    /// The connection leads to a replica, which accepts no writes.
    pub(super) to_replica: bool,
    /// One entry for each connection that broke.
    pub(super) fates: Vec<Fate>,
    /// The server has closed all connections with an epoch below this one, at the client's request.
    pub(super) killed: u32,
    /// When the last request and the last reply arrive. No later one arrives earlier.
    pub(super) last_there: Time,
    pub(super) last_back: Time,
    /// No connection can be opened until then.
    pub(super) blocked_until: Time,
    /// Messages are slow until then.
    pub(super) slow_until: Time,
    pub(super) slow_by: Time,
    /// By then every slow message has arrived.
    pub(super) slow_over: Time,
    /// When the server may get first votes, because it restarted.
    pub(super) votes_from: Option<Instant>,
    /// When it may get them for the slot that it received from another server.
    pub(super) slot_from: Option<Instant>,
    /// When the server may extend leases, because it replaced another one.
    pub(super) extends_from: Option<Instant>,
    pub(super) open: VecDeque<Open>,
    pub(super) pending_deletes: VecDeque<PendingDelete>,
    /// Tokens whose vote was never sent. They need no delete.
    pub(super) unsent: BTreeSet<Arc<str>>,
    /// Grants that replicas must confirm before they count, if the client requires replicas.
    pub(super) confirm: Option<Confirmations<(Open, Answer)>>,
}

impl Link {
    pub(super) fn record_delete(&mut self, open: &Open) {
        if let Open {
            request, purpose: Purpose::Delete { token, lifetime: ttl, until, .. }, ..
        } = open
            && !self.unsent.contains(token)
            && self
                .pending_deletes
                .iter()
                .all(|pending| pending.request.gives_up() != request.gives_up())
        {
            let (request, ttl, until) = (request.clone(), *ttl, *until);
            self.pending_deletes.push_back(PendingDelete { request, ttl, until });
        }
    }
}

impl World {
    /// Closes the connection if this request still has no reply, which is checked once after [`super::network`]'s time
    /// for silence.
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

    /// Whether this node has replied promptly to this client since then.
    pub(super) fn sound(&self, client: usize, node: usize, since: Time) -> bool {
        let (link, server) = (&self.links[client][node], &self.servers[node]);
        link.up
            && link.incarnation == server.incarnation
            && !server.poisoned
            && link.up_since.max(link.slow_over).max(server.paused_until) <= since
            && server.in_step_from(self.durability.min_replicas) <= since
            && link
                .votes_from
                .max(link.slot_from)
                .is_none_or(|from| self.clocks[client].local(since) >= from)
    }

    /// Closes the connection. Messages in flight may still arrive, possibly much later. The client reconnects after
    /// `pause`.
    pub(super) fn cut(&mut self, client: usize, node: usize, pause: Time) {
        let now = self.now;
        // Bytes of a dead connection can stay in a network buffer for a long time.
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
        let held = link.confirm.iter_mut().flat_map(Confirmations::end).map(|(open, _)| open);
        let held: Vec<Open> = held.collect();
        for open in std::mem::take(&mut link.open).into_iter().chain(held) {
            self.unanswered(client, node, open, "the connection broke");
        }
        self.send_to_cluster(client, node, ClusterMessage::ConnectionChanged);
        self.at(now + pause, Event::Connect { client, node, epoch });
        if let Some(watch) = &self.watches[client] {
            watch.changed(Change::Reset);
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
        // An outdated sentinel still names the old primary. `ROLE` shows that it is not a primary any more.
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
        let used = self.maybe_used_before(node).map(|left| local + left);
        let (incarnation, durability) = (self.servers[node].incarnation, self.durability);
        let link = &mut self.links[client][node];
        link.up = true;
        (link.incarnation, link.to_replica) = (incarnation, demoted);
        (link.up_since, link.last_there, link.last_back) = (self.now, self.now, self.now);
        link.votes_from = (!self.guard.is_zero()).then(|| local + quarantine);
        link.extends_from = link.extends_from.max(used);
        link.confirm = (!durability.is_none()).then(|| Confirmations::new(durability));
        // Kills the previous connection before a pending delete is sent. None of its messages can arrive after the
        // delete.
        if self.kills {
            link.killed = link.epoch;
        }
        for PendingDelete { request, ttl, until } in std::mem::take(&mut link.pending_deletes) {
            let until = until.unwrap_or(local + ttl);
            // In a cluster, an expired one is sent too. If another server receives it, its time is counted again.
            if until > local || self.shards > 1 {
                let mut open = Open::without_caller(request, ttl);
                if let Purpose::Delete { until: end, .. } = &mut open.purpose {
                    *end = Some(until);
                }
                self.send((client, node), open);
            }
        }
        if let Some(watch) = &self.watches[client] {
            watch.changed(Change::All);
        }
        self.send_to_cluster(client, node, ClusterMessage::ConnectionChanged);
    }

    /// Fails a request without a reply. A delete becomes pending here and, in a cluster, at the next owner of the key.
    pub(super) fn unanswered(&mut self, client: usize, node: usize, open: Open, why: &str) {
        self.links[client][node].record_delete(&open);
        if let Purpose::Delete { lifetime, until, .. } = &open.purpose {
            let pending = (open.request.clone(), *lifetime, *until, open.redirects);
            self.send_to_cluster(client, node, ClusterMessage::PendingDelete(pending));
        }
        let _ = open.answer.send(Err(Fault::new(why)));
    }

    pub(super) fn slow(&mut self, client: usize, node: usize, by: Time, length: Time) {
        let link = &mut self.links[client][node];
        (link.slow_until, link.slow_by) = (self.now + length, by);
        link.slow_over = link.slow_over.max(self.now + length + by + 2 * self.latency);
    }
}
