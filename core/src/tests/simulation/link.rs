//! The path between a client and a server: whether it works, and since when the server has replied promptly.

use crate::clock::Instant;

use super::clock::Time;
use super::net::{Fate, Remote};
use super::world::{MS, World};

#[derive(Default)]
pub(super) struct Link {
    /// No connection can be opened until then.
    pub(super) blocked_until: Time,
    /// Messages are slow until then.
    slow_until: Time,
    slow_by: Time,
    /// By then every slow message has arrived.
    pub(super) slow_over: Time,
    /// When a connection broke last, or when the client has noticed it.
    cut_at: Time,
    /// The client's connections and those for their notifications, as the server knows them, and since when. Parallel
    /// attempts may open several, of which the client uses any.
    connections: Vec<(usize, usize)>,
    up_since: Time,
    /// The incarnation of the server at that time.
    incarnation: u32,
    /// When the server may get first votes, because it restarted or replaced another one.
    votes_from: Option<Instant>,
}

impl Link {
    pub(super) fn slowness(&self, now: Time) -> Time {
        if now < self.slow_until { self.slow_by } else { 0 }
    }
}

/// The time in which a client connects to a server that it needs, and that has replied for [`REPLIES`].
///
/// The longest pause between two attempts is 0.8 s, and one attempt that hangs is given up after 2 s at most.
const CONNECTS: Time = 2_000 * MS;
const REPLIES: Time = 1_000 * MS;
/// The time in which a client that uses a connection notices that no bytes arrive any more: the timeout of a command,
/// and two probes on the connection for notifications.
const NOTICED: Time = 6_000 * MS;

impl World {
    /// A client has a connection to this server, and one for notifications. Both may be the same.
    pub(super) fn connected(&mut self, conn: usize, notifications: usize, place: usize) {
        if !self.is_usable(conn) {
            return;
        }
        let (client, now) = (self.conns[conn].client, self.now);
        let local = self.clocks[client].local(now);
        let incarnation = self.servers[place].incarnation;
        let is_other = self.links[client][place].incarnation != incarnation;
        let wait = self.quarantine(place, is_other);
        let guarded = !self.guard.is_zero();
        let link = &mut self.links[client][place];
        link.connections.retain(|(one, _)| *one != conn && !is_other);
        link.connections.push((conn, notifications));
        link.up_since = now;
        link.incarnation = incarnation;
        link.votes_from = link.votes_from.max(guarded.then(|| local + wait));
    }

    pub(super) fn is_connected(&self, client: usize, place: usize) -> bool {
        let link = &self.links[client][place];
        link.incarnation == self.servers[place].incarnation
            && link.connections.iter().any(|(conn, notifications)| {
                self.is_usable(*conn) && self.is_usable(*notifications)
            })
    }

    /// Since when the server would reply promptly to this client.
    fn reachable_since(&self, client: usize, place: usize) -> Time {
        let (link, server) = (&self.links[client][place], &self.servers[place]);
        let path = link.blocked_until.max(link.slow_over).max(link.cut_at);
        let server = server.paused_until.max(server.accepts_from).max(server.started);
        let server = server.max(self.servers[place].refuses_until);
        path.max(server).max(self.settled[place % self.nodes()])
    }

    /// Whether the client must be connected to this server by now, because it needs it.
    pub(super) fn must_be_connected(&self, client: usize, place: usize, needed: Time) -> bool {
        let since = self.reachable_since(client, place).max(needed);
        self.now > since + REPLIES + CONNECTS
    }

    /// Whether this server has replied promptly to this client since then.
    pub(super) fn sound(&self, client: usize, place: usize, since: Time) -> bool {
        let (link, server) = (&self.links[client][place], &self.servers[place]);
        self.is_connected(client, place)
            && !server.poisoned
            && link.up_since.max(link.slow_over).max(server.paused_until) <= since
            && server.refuses_until <= since
            && server.in_step_from(self.durability.min_replicas) <= since
            && link.votes_from.is_none_or(|from| self.clocks[client].local(since) >= from)
    }

    /// Whether the server would reply promptly since then, if the client connected to it.
    pub(super) fn is_reachable(&self, client: usize, place: usize, since: Time) -> bool {
        self.reachable_since(client, place) <= since
    }

    /// From now on, no byte of these connections arrives, in either direction. Neither end is notified. New connections
    /// work.
    pub(super) fn vanish(&mut self, client: usize, place: usize) {
        self.drop_bytes(client, place);
        let (now, link) = (self.now, &mut self.links[client][place]);
        link.cut_at = now + NOTICED;
    }

    /// Breaks the connections. Bytes in flight may still arrive, possibly much later. The client cannot reconnect
    /// before the end of `pause`.
    pub(super) fn cut(&mut self, client: usize, place: usize, pause: Time) {
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
        self.break_connections(client, place, Fate { lost_from, held_until });
        let link = &mut self.links[client][place];
        link.blocked_until = link.blocked_until.max(now + pause);
        link.cut_at = link.cut_at.max(now);
    }

    pub(super) fn slow(&mut self, client: usize, place: usize, by: Time, length: Time) {
        let (now, latency) = (self.now, self.latency);
        let link = &mut self.links[client][place];
        (link.slow_until, link.slow_by) = (now + length, by);
        link.slow_over = link.slow_over.max(now + length + by + 2 * latency);
    }
}

/// The connections of a path.
impl World {
    /// The client's connections to a server, or one of them. With `only_one_in`, it is one in this number of cases.
    fn some_connections(&mut self, client: usize, place: usize, only_one_in: u8) -> Vec<usize> {
        let to_place = |remote| matches!(remote, Remote::Server { place: to, .. } if to == place);
        let all = (0..self.conns.len()).filter(|at| {
            let conn = &self.conns[*at];
            let is_open = conn.open && !conn.broken && !conn.vanished;
            conn.client == client && to_place(conn.remote) && is_open
        });
        let mut all: Vec<usize> = all.collect();
        if all.len() > 1 && self.faults && self.rng.u8(..only_one_in) == 0 {
            let only = self.rng.usize(..all.len());
            all = vec![all[only]];
        }
        all
    }

    /// Drops all bytes of the client's connections to a server from now on, or only of one of them.
    fn drop_bytes(&mut self, client: usize, place: usize) {
        for conn in self.some_connections(client, place, 2) {
            self.conns[conn].vanished = true;
        }
    }

    /// The server closes one of the client's connections, as an administrator may do.
    pub(super) fn close_one(&mut self, client: usize, place: usize) {
        if let Some(conn) = self.some_connections(client, place, 1).pop() {
            self.close(conn);
            let link = &mut self.links[client][place];
            link.cut_at = link.cut_at.max(self.now);
        }
    }

    /// Breaks the client's end of its connections to a server, or only of one of them.
    fn break_connections(&mut self, client: usize, place: usize, fate: Fate) {
        for conn in self.some_connections(client, place, 8) {
            let conn = &mut self.conns[conn];
            conn.broken = true;
            conn.fate = Some(fate);
            conn.wake();
        }
    }
}
