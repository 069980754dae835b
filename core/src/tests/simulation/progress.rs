//! Checks progress: a free lock is granted, a lease on a quorum is kept, no key is left behind.
//!
//! The check runs a few times per second of virtual time. Any change since the last check counts in the code's favour.
//! A lock that was free only most of the time need not have been granted.

use std::collections::BTreeSet;

use super::action::Use;
use super::clock::Time;
use super::monitor::Monitor;
use super::record::{Record, Valid, valid_at};
use super::scenario::Promise;
use super::semaphores::POOL;
use super::server::FOREIGN;
use super::simulated::Outstanding;
use super::world::{MS, World};

pub(super) const CHECK_INTERVAL: Time = 200 * MS;
/// How long a free lock may stay without a grant while an acquire waits for it. An acquire runs a round at least once
/// per second, and one behind it in the local queue follows. The limit allows two such rounds, and half a second for
/// the delays of fairness, scouts and the interval of the check. Votes that time out are added to it.
const GRANT_LIMIT: Time = 2_500 * MS;
/// The same limit where contenders may split the votes repeatedly. By then one of them has the lock, and keys of
/// abandoned leases have expired.
const SPLIT_VOTE_LIMIT: Time = 15_000 * MS;
/// How long a turn lasts without a caller that sets it again.
const TURN: Time = 3_000 * MS;
/// How long a key may stay after its delete was sent, while its client runs. If its connection is lost, or the server
/// has lost the script, the delete is sent again immediately.
const LEFTOVER_LIMIT: Time = 1_000 * MS;

/// An acquire in progress.
pub(super) struct Waiting {
    pub(super) client: usize,
    pub(super) due: Option<Time>,
    pub(super) paused: Time,
    begun: Time,
    names: Vec<&'static str>,
    /// It can be granted if all keys of one of these groups are free.
    groups: Vec<Vec<&'static str>>,
    ttl: Time,
    node_timeout: Time,
    /// Its `wait` is 0. Its single attempt may wait for connections and then fail. `due` limits that.
    once: bool,
    /// How long the turn of the other side may last while the lock is free.
    turn: Time,
    /// Since when it could have been granted, and since when if no simultaneous contender had been granted.
    free_since: Option<Time>,
    contested_since: Option<Time>,
}

impl Waiting {
    /// An acquire that began at `now` and may last until `due`.
    pub(super) fn new(
        client: usize,
        how: &Use,
        (now, due): (Time, Option<Time>),
        paused: Time,
    ) -> Self {
        Self {
            client,
            due,
            paused,
            begun: now,
            names: how.names.clone(),
            groups: how.groups(),
            // The lease has no more time than that.
            ttl: how.max_hold.unwrap_or(how.ttl).min(how.ttl) * MS,
            node_timeout: how.node_timeout() * MS,
            once: how.wait == Some(0),
            turn: if how.side.is_some() { TURN } else { 0 },
            free_since: None,
            contested_since: None,
        }
    }

    /// Whether its votes and its lease last for a few round trips over these links.
    fn has_time(&self, world: &World) -> bool {
        let (latency, confirmed) = (world.latency, !world.durability.is_none());
        self.node_timeout >= if confirmed { 12 } else { 6 } * latency && self.ttl >= 20 * latency
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.client == other.client && self.names.iter().any(|name| other.names.contains(name))
    }
}

/// How long a renewed lease has been on a quorum of nodes that reply promptly.
pub(super) struct Sound {
    since: Option<Time>,
    /// The shortest TTL that the lease ever has.
    least: Time,
    longest: Time,
}

impl Sound {
    pub(super) fn for_use(how: &Use) -> Option<Self> {
        let extend = how.extend.unwrap_or(how.ttl);
        let (least, longest) = (how.ttl.min(extend) * MS, how.ttl.max(extend) * MS);
        (how.renew && how.max_hold.is_none()).then_some(Self { since: None, least, longest })
    }
}

impl Record {
    /// Whether renewals must have kept the lease.
    pub(super) fn is_sound(&self, world: &World) -> bool {
        let Some(Sound { since: Some(since), least, longest }) = self.sound else { return false };
        let long = world.now > since + longest + 3 * CHECK_INTERVAL;
        long && least >= 20 * world.latency && world.keeps(self, world.now - CHECK_INTERVAL)
    }
}

impl World {
    /// Whether a quorum of nodes has replied promptly to this client since then and satisfies `also`.
    fn quorum_of(&self, client: usize, since: Time, also: impl Fn(usize) -> bool) -> bool {
        let count = self.nodes();
        let sound = (0..count).filter(|node| self.node_sound(client, *node, since) && also(*node));
        sound.count() > count / 2
    }

    /// The same check for a node whose slots have not moved since. The client needs no connection to a cluster's other
    /// servers.
    fn node_sound(&self, client: usize, node: usize, since: Time) -> bool {
        let mut places = (node..self.servers.len()).step_by(self.nodes());
        let declines = |nodes: &Vec<bool>| nodes.get(node) == Some(&true);
        // When a client learns of a move, and guards the slots, only its node knows.
        let guarded = self.shards > 1 && self.declines.get(client).is_some_and(declines);
        self.settled[node] <= since
            && !guarded
            && self.sound(client, self.place_of(node), since)
            && places.all(|place| self.is_reachable(client, place, since))
    }

    /// Whether a quorum has the lease's keys.
    fn keeps(&self, record: &Record, since: Time) -> bool {
        let token = &*record.state.claim.token;
        self.quorum_of(record.client, since, |node| {
            let server = &self.servers[self.place_of(node)];
            record.names.iter().all(|name| server.has_now(name, token, self.now))
        })
    }

    /// Whether a quorum could grant these names: they are free, or held for at most `left` ms.
    fn could_grant(&self, client: usize, names: &[&str], left: u64) -> bool {
        self.quorum_of(client, self.now - CHECK_INTERVAL, |node| {
            let owner = |name| self.servers[self.place_of(node)].owner_at(name, self.now);
            names.iter().all(|name| owner(name).is_none_or(|(_, ends)| ends < left))
        })
    }

    /// Whether every lease survives the loss of this node's data. Enough other nodes must have its keys for as long as
    /// it is valid, so that no other client can reach a quorum. False while a reply that might count is in flight.
    pub(super) fn survives_flush(
        &self,
        node: usize,
        valid: &[Valid],
        outstanding: &Outstanding,
    ) -> bool {
        let outstanding = outstanding.lock().unwrap();
        let mut tokens = outstanding.1.values().map(|token| &**token);
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
}

impl Monitor {
    /// Checks everything that should make progress. `rested` reports which clients have run since the last check.
    pub(super) fn check_progress(&mut self, world: &World, rested: impl Fn(usize) -> bool) {
        if !self.promise.is_some_and(Promise::is_all) {
            return;
        }
        self.check_waiters(world, &rested);
        self.check_connections(world, &rested);
        for record in &mut self.live {
            let keeps = rested(record.client) && world.keeps(record, world.now - CHECK_INTERVAL);
            if let Some(sound) = &mut record.sound {
                sound.since = if keeps { sound.since.or(Some(world.now)) } else { None };
            }
        }
        if world.kills && world.keeps_deletes {
            self.check_leftover_keys(world);
        }
    }

    fn check_waiters(&mut self, world: &World, rested: &impl Fn(usize) -> bool) {
        let now = world.now;
        let held = self
            .live
            .iter()
            .filter(|record| valid_at(&record.state, world.clocks[record.client].local(now)));
        let mut taken: BTreeSet<&str> = held.flat_map(|record| &record.names).copied().collect();
        let lately = self.granted_at.iter().filter(|(_, at)| **at + CHECK_INTERVAL >= now);
        taken.extend(lately.map(|(name, _)| name));
        let ids: Vec<u64> = self.waiting.keys().copied().collect();
        let mut first: Vec<u64> = Vec::new();
        for id in ids {
            let waiting = &self.waiting[&id];
            let patient = self.waiting.values().filter(|other| other.client == waiting.client);
            let slack: Time = patient.map(|other| other.node_timeout).max().unwrap_or(0) * 4;
            let could = |left| {
                rested(waiting.client)
                    && waiting.has_time(world)
                    && waiting.groups.iter().any(|keys| {
                        !keys.iter().any(|key| taken.contains(key))
                            && world.could_grant(waiting.client, keys, left)
                    })
            };
            let (free, contested) = (could(1), could(3_000));
            let behind = first.iter().any(|older| self.waiting[older].overlaps(waiting));
            // A caller of a semaphore waits for those before it, even if they want more permits than are free.
            if contested || waiting.names == [POOL] {
                first.push(id);
            }
            let since = |since: Option<Time>, so: bool| if so { since.or(Some(now)) } else { None };
            let Some(waiting) = self.waiting.get_mut(&id) else { continue };
            waiting.free_since = since(waiting.free_since, free && !behind);
            waiting.contested_since = since(waiting.contested_since, contested && !behind);
            let over =
                |since: Option<Time>, bound| since.is_some_and(|at| now > at + bound + slack);
            let turn = waiting.turn;
            let is_over = over(waiting.free_since, GRANT_LIMIT + turn)
                || over(waiting.contested_since, SPLIT_VOTE_LIMIT + turn);
            let (client, names) = (waiting.client, waiting.names.clone());
            if is_over && !waiting.once {
                self.fail(format!("starved: client {client} waits for {names:?}, which are free"));
            }
        }
    }

    /// A client that waits for a lock is connected to every server that would have replied for a while. A cluster's
    /// client only needs the servers with its slots.
    ///
    /// An acquire of one round first waits until a quorum is connected. If a connection breaks meanwhile, its vote
    /// opens another one. Later callers of the client may wait behind it.
    fn check_connections(&mut self, world: &World, rested: &impl Fn(usize) -> bool) {
        let mut lacking = None;
        let all = || self.waiting.values().filter(|_| world.shards == 1);
        let connects = |client| all().any(|waiting| waiting.once && waiting.client == client);
        for waiting in all().filter(|waiting| !connects(waiting.client)) {
            let needed = waiting.begun.max(self.paused_until[waiting.client]);
            let lacks = |place: &usize| {
                world.must_be_connected(waiting.client, *place, needed)
                    && !world.is_connected(waiting.client, *place)
            };
            if rested(waiting.client)
                && let Some(place) = (0..world.servers.len()).find(lacks)
            {
                lacking = Some(format!("not connected: client {} to {place}", waiting.client));
            }
        }
        lacking.into_iter().for_each(|text| self.fail(text));
    }

    /// An abandoned key disappears soon on every node that its client can reach.
    fn check_leftover_keys(&mut self, world: &World) {
        let since = world.now - LEFTOVER_LIMIT;
        // A promoted replica may restore keys that were deleted before its promotion. They expire when their TTL ends.
        let same = world.servers.iter().enumerate().filter(|(_, server)| server.switched.is_none());
        for (node, server) in same {
            for owner in server.owners(world.now).filter(|owner| *owner != FOREIGN) {
                if let Some(&(client, at)) = world.given_up.get(&owner)
                    && at.max(self.paused_until[client]) < since
                    && at > world.moved_again[node % world.nodes()]
                    && !world.dead[client]
                    && world.deletes_again(node) <= since
                    && world.node_sound(client, node % world.nodes(), since)
                {
                    self.fail(format!("left behind: a vote of client {client} on node {node}"));
                }
            }
        }
    }
}
