//! A node's replicas: their data, their delay, and the connections that wait for them.

use std::sync::Arc;
use std::time::Duration;

use super::clock::Time;
use super::resp::Reply;
use super::server::{Keys, Peer, Server};
use super::world::{Event, MS, World};

/// The data of a server after a number of writes.
#[derive(Clone, Debug)]
pub(super) struct Copy {
    offset: u64,
    data: Arc<Keys>,
}

/// One replica.
#[derive(Clone)]
pub(super) struct Replica {
    has: Copy,
    /// The number of writes that it has confirmed to the primary.
    acked: u64,
    /// Arrival of the last write. Writes arrive in order.
    last: Time,
    /// The link to the primary is cut until then.
    away_until: Time,
    /// Since when it has all data of a new primary. `None` while it does not.
    synced: Option<Time>,
}

/// A connection whose `WAIT` has no reply yet.
#[derive(Clone)]
pub(super) struct Waiting {
    pub(super) peer: Peer,
    offset: u64,
    replicas: u64,
    until: Time,
}

impl Server {
    fn copy(&self) -> Copy {
        Copy { offset: self.offset, data: Arc::new(self.keys.clone()) }
    }

    /// Adds this many replicas, each with all data.
    pub(super) fn replicated(&mut self, count: usize) {
        let (has, last) = (self.copy(), 0);
        let replica = Replica { has, acked: 0, last, away_until: 0, synced: Some(0) };
        self.replicas = vec![replica; count];
    }

    fn confirmed(&self, offset: u64) -> usize {
        self.replicas.iter().filter(|replica| replica.acked >= offset).count()
    }

    /// Since when this many replicas have been reachable.
    pub(super) fn in_step_from(&self, needed: u32) -> Time {
        let Some(last) = (needed as usize).checked_sub(1) else { return 0 };
        let since = |replica: &Replica| replica.synced.map(|since| since.max(replica.away_until));
        let mut since: Vec<Time> = self.replicas.iter().filter_map(since).collect();
        since.sort_unstable();
        since.get(last).copied().unwrap_or(Time::MAX)
    }

    /// Promotes a replica: the one with the most writes, or any of them if all have every write that counts. Returns
    /// its former state.
    pub(super) fn promoted(&mut self, any: Option<usize>, now: Time) -> Option<Self> {
        let synced = |replica: &&Replica| replica.synced.is_some();
        let best = self.replicas.iter().filter(synced).max_by_key(|replica| replica.has.offset);
        let chosen = any.map_or(best, |at| self.replicas.get(at).filter(synced));
        let has = chosen?.has.clone();
        let old = self.switch(now);
        self.keys = (*has.data).clone();
        (self.offset, self.streamed) = (has.offset, has.offset);
        // The other replicas and the former primary synchronize from the start.
        for replica in &mut self.replicas {
            (replica.acked, replica.synced) = (0, None);
        }
        Some(old)
    }
}

impl World {
    /// Sends the new writes of the node's server to each of its replicas.
    pub(super) fn replicate(&mut self, node: usize) {
        let (now, server) = (self.now, &mut self.servers[node]);
        if server.replicas.is_empty() || server.streamed == server.offset {
            return;
        }
        server.streamed = server.offset;
        let (copy, incarnation) = (server.copy(), server.incarnation);
        for replica in 0..server.replicas.len() {
            let delay = self.rng.u64(self.latency / 4..=self.latency);
            let to = &mut self.servers[node].replicas[replica];
            to.last = to.last.max(now + delay);
            let (at, copy) = (to.last, copy.clone());
            self.at(at, Event::Replicated { node, incarnation, replica, copy });
        }
    }

    /// The server of this incarnation: the node's current one, or the former one while it still runs.
    pub(super) fn server_of(&mut self, node: usize, incarnation: u32) -> Option<&mut Server> {
        let server = &mut self.servers[node];
        if server.incarnation == incarnation {
            return Some(server);
        }
        let (old, until) = self.old.get_mut(&node)?;
        (old.incarnation == incarnation && self.now < *until).then_some(old)
    }

    /// The server of this incarnation as [`Self::server_of`], or as a replica after it was demoted.
    pub(super) fn server_at(&mut self, node: usize, incarnation: u32) -> Option<&mut Server> {
        let old = self.old.get_mut(&node).map(|(old, _)| old);
        let servers = [Some(&mut self.servers[node]), old];
        servers.into_iter().flatten().find(|server| server.incarnation == incarnation)
    }

    /// Delays the reply to `WAIT` until enough replicas have the writes of the connection.
    pub(super) fn wait(
        &mut self,
        peer: Peer,
        (node, incarnation): (usize, u32),
        (replicas, time): (u64, Duration),
    ) {
        // A server ends an expired `WAIT` only at its next check, which it makes every 100 ms.
        let late = self.rng.u64(0..100 * MS);
        let until = self.now + u64::try_from(time.as_nanos()).unwrap().max(MS) + late;
        self.conns[peer.1 as usize].waits = true;
        let Some(server) = self.server_at(node, incarnation) else { return };
        let offset = server.wrote.get(&peer).copied().unwrap_or(0);
        server.waits.push(Waiting { peer, offset, replicas, until });
        self.at(until, Event::Waited { node, incarnation });
        self.at(self.now, Event::Waited { node, incarnation });
    }

    /// Replies to the connections whose wait is over, and runs the requests behind them.
    fn end_waits(&mut self, node: usize, incarnation: u32) {
        let now = self.now;
        while let Some(server) = self.server_at(node, incarnation) {
            let paused = server.paused_until;
            if now < paused {
                return self.at(paused, Event::Waited { node, incarnation });
            }
            let over = |waiting: &Waiting| {
                now >= waiting.until || server.confirmed(waiting.offset) as u64 >= waiting.replicas
            };
            let Some(at) = server.waits.iter().position(over) else { return };
            let Waiting { peer: (client, conn), offset, .. } = server.waits.remove(at);
            let count = server.confirmed(offset);
            self.log(|| format!("node {node} -> {conn} of client {client}: {count} replicas"));
            let conn = conn as usize;
            self.conns[conn].waits = false;
            self.push(conn, &Reply::Int(i64::try_from(count).unwrap()));
            self.serve(conn);
        }
    }

    /// A message between a server and its replicas.
    pub(super) fn replication(&mut self, event: Event) {
        let now = self.now;
        let (Event::Replicated { node, incarnation, .. }
        | Event::Acked { node, incarnation, .. }
        | Event::Waited { node, incarnation }
        | Event::Resync { node, incarnation }) = event
        else {
            return;
        };
        if !matches!(event, Event::Waited { .. }) && self.servers[node].incarnation != incarnation {
            return;
        }
        let replicas = &mut self.servers[node].replicas;
        match event {
            Event::Replicated { replica, .. } | Event::Acked { replica, .. }
                if now < replicas[replica].away_until =>
            {
                let until = replicas[replica].away_until;
                return self.at(until, event);
            }
            Event::Replicated { replica, copy, .. } => {
                let to = &mut replicas[replica];
                let offset = copy.offset;
                if to.synced.is_some() && offset > to.has.offset {
                    to.has = copy;
                }
                let at = now + self.rng.u64(self.latency / 4..=self.latency);
                return self.at(at, Event::Acked { node, incarnation, replica, offset });
            }
            Event::Acked { replica, offset, .. } => {
                let from = &mut replicas[replica];
                // The server counts only the writes that it has itself.
                from.acked = from.acked.max(offset.min(from.has.offset));
            }
            Event::Resync { .. } => {
                let copy = self.servers[node].copy();
                for replica in &mut self.servers[node].replicas {
                    let away_until = replica.away_until.max(now);
                    let acked = copy.offset;
                    let has = copy.clone();
                    *replica = Replica { has, acked, last: now, away_until, synced: Some(now) };
                }
            }
            _ => {}
        }
        self.end_waits(node, incarnation);
    }

    /// Cuts the link between a node's server and one of its replicas for a while.
    pub(super) fn isolate(&mut self, node: usize, replica: usize, length: Time) {
        let until = self.now + length;
        let replicas = &mut self.servers[node].replicas;
        if let Some(replica) = replicas.get_mut(replica) {
            replica.away_until = replica.away_until.max(until);
        }
    }
}
