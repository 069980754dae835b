//! Carries bytes between clients and servers: delayed, split, lost, or held back across a reconnect.

use std::task::{Context, Poll, Waker};

use super::clock::Time;
use super::refusals::Refusal;
use super::resp::{self, Reply};
use super::server::Server;
use super::world::{Event, MS, World};

/// The ports of the servers, by their address and place, and of the sentinels, by their node.
const SERVERS: usize = 10_000;
const PLACES: usize = 100;
const SENTINELS: usize = 40_000;
/// Sentinels of a node.
pub(super) const QUORUM: usize = 3;
/// How long bytes of a connection that the client has reset may still arrive.
const RESET_DELAY: Time = 3_000 * MS;
/// One of this number of writes finds a send buffer that has no room for all bytes.
const FULL_BUFFER: u16 = 200;

/// What a connection leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remote {
    Server { place: usize, incarnation: u32 },
    Sentinel { node: usize, index: usize },
}

/// What happens to the bytes that were in flight when their connection broke.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fate {
    /// Bytes that would arrive after this time are lost, and all behind them.
    pub(super) lost_from: Time,
    /// The remaining bytes stay in a network buffer until then.
    pub(super) held_until: Time,
}

/// One TCP connection, both ends. Its index is its ID at the server.
pub(super) struct Conn {
    pub(super) client: usize,
    pub(super) remote: Remote,
    /// Whether the client has not closed its end, whether it broke, and whether bytes are dropped without notice.
    pub(super) open: bool,
    pub(super) broken: bool,
    pub(super) vanished: bool,
    /// The bytes that the client has not read, and the bytes that no server has read.
    inbox: Vec<u8>,
    unread: usize,
    /// Whether the send buffer is full. It has room again when the server has read all bytes.
    full: bool,
    wakers: Vec<Waker>,
    /// When the last bytes arrive in each direction. No later ones arrive earlier.
    last_there: Time,
    last_back: Time,
    pub(super) fate: Option<Fate>,
    /// Whether the server's end is open.
    pub(super) alive: bool,
    /// An incomplete request, or requests behind a `WAIT`.
    input: Vec<u8>,
    pub(super) waits: bool,
    /// Bytes that arrived while the server was stopped. They do not depend on the connection any more.
    backlog: Vec<Vec<u8>>,
    pub(super) state: super::wire::Session,
}

impl Conn {
    fn is_usable(&self) -> bool {
        self.open && !self.broken && self.alive && !self.vanished
    }

    fn wakes(&mut self, cx: &Context<'_>) {
        if !self.wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
            self.wakers.push(cx.waker().clone());
        }
    }

    pub(super) fn wake(&mut self) {
        self.wakers.drain(..).for_each(Waker::wake);
    }
}

pub(super) fn server_port(place: usize, address: u32) -> u16 {
    u16::try_from(SERVERS + place + PLACES * address as usize).unwrap()
}

pub(super) fn sentinel_port(node: usize, index: usize) -> u16 {
    u16::try_from(SENTINELS + node * QUORUM + index).unwrap()
}

impl World {
    pub(super) fn delay(&mut self, client: usize, remote: Remote) -> Time {
        let slow = match remote {
            Remote::Server { place, .. } => self.links[client][place].slowness(self.now),
            Remote::Sentinel { .. } => 0,
        };
        slow + self.rng.u64(self.latency / 4..=self.latency)
    }

    /// What a port leads to. `None` if nothing listens there.
    pub(super) fn remote_of(&self, port: u16) -> Option<Remote> {
        let port = usize::from(port);
        if let Some(number) = port.checked_sub(SENTINELS) {
            return Some(Remote::Sentinel { node: number / QUORUM, index: number % QUORUM });
        }
        let (place, address) = ((port - SERVERS) % PLACES, (port - SERVERS) / PLACES);
        let old = self.old.get(&place).map(|(old, _)| old);
        let mut servers = [Some(&self.servers[place]), old].into_iter().flatten();
        // Without sentinels, a promoted server takes over the address.
        let is_at = |it: &&Server| self.sentinels.is_empty() || it.address as usize == address;
        let server = servers.find(is_at)?;
        Some(Remote::Server { place, incarnation: server.incarnation })
    }

    /// Accepts a connection. Returns `None` if it is refused.
    pub(super) fn accept(&mut self, client: usize, port: u16) -> Option<usize> {
        let remote = self.remote_of(port)?;
        if let Remote::Server { place, incarnation } = remote {
            let server = &self.servers[place];
            let starts = server.incarnation == incarnation && self.now < server.accepts_from;
            let is_full = self.refusal(place) == Some(Refusal::NoConnection);
            if starts || is_full || self.now < self.links[client][place].blocked_until {
                return None;
            }
        }
        self.conns.push(Conn {
            client,
            remote,
            open: true,
            broken: false,
            vanished: false,
            inbox: Vec::new(),
            unread: 0,
            full: false,
            wakers: Vec::new(),
            last_there: self.now,
            last_back: self.now,
            fate: None,
            alive: true,
            input: Vec::new(),
            waits: false,
            backlog: Vec::new(),
            state: super::wire::Session::default(),
        });
        Some(self.conns.len() - 1)
    }

    /// Whether the connection exists at both ends.
    pub(super) fn is_usable(&self, conn: usize) -> bool {
        self.conns[conn].is_usable()
    }

    /// Cuts bytes at a random position, sometimes.
    fn pieces(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        if bytes.len() < 2 || self.rng.u8(..4) != 0 {
            return vec![bytes.to_vec()];
        }
        let (first, rest) = bytes.split_at(self.rng.usize(1..bytes.len()));
        vec![first.to_vec(), rest.to_vec()]
    }

    fn send(&mut self, conn: usize, bytes: &[u8]) {
        let (client, remote) = (self.conns[conn].client, self.conns[conn].remote);
        if self.dead[client] {
            return;
        }
        self.conns[conn].unread += bytes.len();
        if self.conns[conn].vanished {
            return;
        }
        for bytes in self.pieces(bytes) {
            let at = self.now + self.delay(client, remote);
            let at = at.max(self.conns[conn].last_there);
            self.conns[conn].last_there = at;
            self.at(at, Event::Arrive { conn, bytes, held: false });
        }
    }

    /// The client closes its end.
    pub(super) fn hang_up(&mut self, conn: usize, reset: bool) {
        let lost_from = self.now + self.rng.u64(0..=RESET_DELAY);
        let (now, one) = (self.now, &mut self.conns[conn]);
        (one.open, one.inbox) = (false, Vec::new());
        if reset {
            one.fate.get_or_insert(Fate { lost_from, held_until: now });
        }
        // The server of a connection without a fate learns of its end after the last bytes.
        if one.fate.is_none() && !one.vanished {
            let (client, remote, last) = (one.client, one.remote, one.last_there);
            let at = last.max(self.now + self.delay(client, remote));
            self.at(at, Event::Hangup { conn });
        }
    }

    /// Bytes arrive at a server, unless they are lost or held back.
    pub(super) fn arrive(&mut self, conn: usize, bytes: Vec<u8>, held: bool) {
        let (now, one) = (self.now, &mut self.conns[conn]);
        if !one.alive {
            return;
        }
        if let (Some(fate), false) = (one.fate, held) {
            if now >= fate.lost_from {
                one.alive = false;
                return;
            }
            // At that time, too: earlier bytes arrive then.
            if now <= fate.held_until {
                return self.at(fate.held_until, Event::Arrive { conn, bytes, held: true });
            }
        }
        let until = self.stopped_until(conn);
        let one = &mut self.conns[conn];
        if now < until || !one.backlog.is_empty() {
            one.backlog.push(bytes);
            if one.backlog.len() == 1 {
                self.at(until, Event::Thaw { conn });
            }
            return;
        }
        self.receive(conn, &bytes);
    }

    /// Until when the server reads nothing.
    fn stopped_until(&self, conn: usize) -> Time {
        match self.conns[conn].remote {
            Remote::Server { place, incarnation }
                if self.servers[place].incarnation == incarnation =>
            {
                self.servers[place].paused_until
            }
            _ => 0,
        }
    }

    /// A stopped server continues and reads what arrived meanwhile.
    pub(super) fn thaw(&mut self, conn: usize) {
        let until = self.stopped_until(conn);
        if self.now < until {
            return self.at(until, Event::Thaw { conn });
        }
        for bytes in std::mem::take(&mut self.conns[conn].backlog) {
            self.receive(conn, &bytes);
        }
    }

    fn receive(&mut self, conn: usize, bytes: &[u8]) {
        let one = &mut self.conns[conn];
        one.unread = one.unread.saturating_sub(bytes.len());
        one.full &= one.unread > 0;
        one.wake();
        if let Remote::Server { place, incarnation } = one.remote
            && self.server_at(place, incarnation).is_none()
        {
            return self.close(conn);
        }
        self.conns[conn].input.extend_from_slice(bytes);
        self.serve(conn);
    }

    /// Runs the complete requests of a connection, up to the next `WAIT`.
    pub(super) fn serve(&mut self, conn: usize) {
        let (mut input, mut from) = (std::mem::take(&mut self.conns[conn].input), 0);
        let (mut replies, mut buffer) = (Vec::new(), std::mem::take(&mut self.reply_buffer));
        while self.conns[conn].alive && !self.conns[conn].waits {
            let request = resp::request(&input[from..]);
            self.garbled |= request.is_err();
            let Ok(Some((words, length))) = request else { break };
            from += length;
            if let Some(reply) = self.execute(conn, &words) {
                replies.push(reply);
            }
        }
        input.drain(..from);
        let one = &mut self.conns[conn];
        one.input = input;
        replies.iter().for_each(|reply| reply.encode(one.state.resp3, &mut buffer));
        self.send_back(conn, &buffer);
        buffer.clear();
        self.reply_buffer = buffer;
    }

    /// Sends a reply or a push that follows from another connection.
    pub(super) fn push(&mut self, conn: usize, reply: &Reply) {
        let mut bytes = Vec::new();
        reply.encode(self.conns[conn].state.resp3, &mut bytes);
        self.send_back(conn, &bytes);
    }

    fn send_back(&mut self, conn: usize, bytes: &[u8]) {
        if bytes.is_empty() || !self.conns[conn].is_usable() {
            return;
        }
        let (client, remote) = (self.conns[conn].client, self.conns[conn].remote);
        for bytes in self.pieces(bytes) {
            let at = self.now + self.delay(client, remote);
            let at = at.max(self.conns[conn].last_back);
            self.conns[conn].last_back = at;
            self.at(at, Event::Back { conn, bytes });
        }
    }

    /// Bytes arrive at the client.
    pub(super) fn arrive_back(&mut self, conn: usize, bytes: &[u8]) {
        let one = &mut self.conns[conn];
        if one.open && !one.broken {
            one.inbox.extend_from_slice(bytes);
            one.wake();
        }
    }

    /// The server closes the connection.
    pub(super) fn close(&mut self, conn: usize) {
        let one = &mut self.conns[conn];
        one.alive = false;
        if one.vanished {
            return;
        }
        let (client, remote, last) = (one.client, one.remote, one.last_back);
        let at = last.max(self.now + self.delay(client, remote));
        self.at(at, Event::Closed { conn });
    }

    pub(super) fn closed(&mut self, conn: usize) {
        let one = &mut self.conns[conn];
        one.broken = true;
        one.wake();
    }
}

/// The client's end of a connection.
impl World {
    pub(super) fn read_from(&mut self, conn: usize, into: &mut [u8]) -> Option<usize> {
        let one = &mut self.conns[conn];
        let count = one.inbox.len().min(into.len());
        into[..count].copy_from_slice(&one.inbox[..count]);
        one.inbox.drain(..count);
        (count > 0 || one.broken).then_some(count)
    }

    /// Returns how many of the bytes were written, or `None` if the connection broke.
    pub(super) fn write(&mut self, conn: usize, bytes: &[u8]) -> Option<usize> {
        let one = &mut self.conns[conn];
        if one.broken {
            return None;
        }
        if one.full || bytes.is_empty() {
            return Some(0);
        }
        one.full = self.faults && self.rng.u16(..FULL_BUFFER) == 0;
        let count = if one.full { self.rng.usize(1..=bytes.len()) } else { bytes.len() };
        self.send(conn, &bytes[..count]);
        Some(count)
    }

    pub(super) fn poll_readable(&mut self, conn: usize, cx: &mut Context<'_>) -> Poll<()> {
        let one = &mut self.conns[conn];
        if one.inbox.is_empty() && !one.broken {
            one.wakes(cx);
            return Poll::Pending;
        }
        Poll::Ready(())
    }

    pub(super) fn poll_writable(&mut self, conn: usize, cx: &mut Context<'_>) -> Poll<()> {
        let one = &mut self.conns[conn];
        if one.full && !one.broken {
            one.wakes(cx);
            return Poll::Pending;
        }
        Poll::Ready(())
    }
}
