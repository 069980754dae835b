//! Keeps the commands of a connection that have no reply yet. Replies have the order of the commands.
//!
//! It holds the unsent bytes and the open commands in the same order. This order assigns each reply to its command, and
//! shows which commands were never sent.

mod gathering;
mod returned;
#[cfg(test)]
mod tests;
mod together;

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use bytes::{Buf, BytesMut};

use super::in_flight::{InFlight, Purpose};
use super::socket::Socket;
use crate::node::Fault;
use gathering::{ATTEMPTS, Gathering, Joint, KINDS, MOST, RELEASES};
use returned::Returned;
pub(super) use together::{Group, Question, has_long};

/// The interval for detecting a silent server. It is a quarter of the shortest silence that counts, which limits the
/// delay.
pub(super) const TICK: Duration = Duration::from_millis(250);
/// A server with open commands that is silent for this long is dead, unless a caller waits longer.
///
/// The deadline of a vote does not close a connection. A single short TTL must not cost a long lease its connection.
pub(super) const SILENCE: Duration = Duration::from_secs(1);
/// The minimum time for the reply to a probe, and a multiple of the round-trip time. Probes have a shorter limit than other
/// commands, because callers wait and a new connection takes time.
const PROBE: (Duration, u32) = (Duration::from_millis(500), 3);
/// The number of unsent bytes beyond which no more commands are taken, because the server does not read. A lower limit
/// would slow down bursts.
const FULL: usize = 4 << 20;

/// The commands under way, and the bytes that are still to be written.
pub(super) struct Pipeline {
    /// Whole commands, except for the first, which may be partly written.
    unsent: BytesMut,
    /// In the order in which they were sent.
    open: VecDeque<Question>,
    /// Commands of one kind that are sent together, as soon as another command follows or everything is written.
    gathered: Gathering,
    /// Keys that were released together with others.
    returned: Returned,
    /// Which kinds are sent together. A kind that the server refused is excluded.
    gathers: [bool; KINDS],
    /// The number of commands so far.
    asked: u64,
    /// The number of commands with a reply so far.
    answered: u64,
    /// How long nothing was read while commands were open. It is counted in ticks, so that a pause of this process does
    /// not count as the server's.
    silence: Duration,
    /// The round-trip time of the handshake.
    round_trip: Duration,
    /// The longest time that a caller has waited for a vote.
    longest_vote: Duration,
}

impl Pipeline {
    /// Creates an empty pipeline. `gathers` allows commands to be sent together. Clusters only accept that for keys in
    /// one slot.
    pub(super) fn new(gathers: bool) -> Self {
        Self {
            unsent: BytesMut::with_capacity(4096),
            open: VecDeque::new(),
            gathered: Gathering::default(),
            returned: Returned::default(),
            gathers: [gathers; KINDS],
            asked: 0,
            answered: 0,
            silence: Duration::ZERO,
            round_trip: Duration::ZERO,
            longest_vote: Duration::ZERO,
        }
    }

    /// Sets the round-trip time of the handshake.
    pub(super) fn set_round_trip(&mut self, round_trip: Duration) {
        self.round_trip = round_trip;
    }

    /// Adds a command after all earlier ones. `last` means that no other command follows immediately.
    pub(super) fn add(&mut self, in_flight: InFlight, last: bool) {
        // The server had nothing to send until now.
        if !self.is_open() {
            self.silence = Duration::ZERO;
        }
        self.asked += 1;
        if in_flight.command.purpose.is_vote() {
            self.longest_vote = self.longest_vote.max(in_flight.command.timeout);
        }
        if last && self.gathered.members.is_empty() {
            return self.send(in_flight);
        }
        let joint = Joint::of(&in_flight).filter(|joint| {
            // A key that we owned holds no foreign data, which would be read in full.
            let ours = joint.kind.at != ATTEMPTS || self.returned.has(joint.key(&in_flight));
            self.gathers[joint.kind.at] && ours
        });
        if !self.gathered.is_of(joint.map(|joint| joint.kind)) {
            self.send_gathered();
        }
        let Some(joint) = joint else { return self.send(in_flight) };
        // Without a waiting caller, the release only undoes a vote.
        if joint.kind.at == RELEASES && !in_flight.answer.is_closed() {
            self.returned.note(joint.key(&in_flight));
        }
        self.gathered.add(in_flight, joint);
        if self.gathered.members.len() == MOST {
            self.send_gathered();
        }
    }

    fn send(&mut self, in_flight: InFlight) {
        self.unsent.extend_from_slice(in_flight.before());
        self.unsent.extend_from_slice(&in_flight.command.bytes);
        self.open.push_back(Question::Alone(in_flight));
    }

    fn send_gathered(&mut self) {
        match self.gathered.take(&mut self.unsent) {
            Some(Question::Alone(one)) => self.send(one),
            together => self.open.extend(together),
        }
    }

    /// Stops sending commands of this kind together.
    pub(super) fn stop_gathering(&mut self, one: &InFlight) {
        if let Some(joint) = Joint::of(one) {
            self.gathers[joint.kind.at] = false;
        }
    }

    /// Stops sending attempts together.
    pub(super) fn stop_attempts(&mut self) {
        self.gathers[ATTEMPTS] = false;
    }

    /// Returns the command for the next reply, if it is one of several that were sent together and its last reply comes
    /// later.
    pub(super) fn next_of_many(&mut self) -> Option<&mut InFlight> {
        match self.open.front_mut()? {
            Question::Together(group) => group.next(),
            Question::Alone(_) => None,
        }
    }

    /// Takes the commands that the next reply belongs to.
    pub(super) fn next(&mut self) -> Option<Question> {
        let next = self.open.pop_front()?;
        self.answered += next.members().len() as u64;
        Some(next)
    }

    /// Puts back a command with a partial reply, because the next reply belongs to it too.
    pub(super) fn put_back(&mut self, in_flight: InFlight) {
        self.answered -= 1;
        self.open.push_front(Question::Alone(in_flight));
    }

    /// Returns the number of commands so far, and how many of them have a reply.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.asked, self.answered)
    }

    /// Returns the commands without a reply in order.
    pub(super) fn open(&self) -> impl Iterator<Item = &InFlight> {
        self.open.iter().flat_map(Question::members).chain(&self.gathered.members)
    }

    /// Whether there is something to write.
    pub(super) fn is_unwritten(&self) -> bool {
        !self.unsent.is_empty() || !self.gathered.members.is_empty()
    }

    /// Whether replies are outstanding.
    pub(super) fn is_open(&self) -> bool {
        !self.open.is_empty() || !self.gathered.members.is_empty()
    }

    /// Whether the server reads fast enough for more commands.
    pub(super) fn has_room(&self) -> bool {
        self.unsent.len() < FULL
    }

    /// Writes as much as the socket accepts. Returns false if something remains.
    ///
    /// Written bytes are removed, and the others are kept.
    pub(super) fn write(&mut self, socket: &mut Socket) -> io::Result<bool> {
        self.send_gathered();
        while !self.unsent.is_empty() {
            match socket.write(&self.unsent) {
                Ok(written) => self.unsent.advance(written),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        socket.flush()?;
        Ok(!socket.is_unflushed())
    }

    /// Records that something was read.
    pub(super) fn heard(&mut self) {
        self.silence = Duration::ZERO;
    }

    /// Counts a tick in which nothing was read. Returns an error once the silence is too long.
    pub(super) fn count_silence(&mut self) -> Option<Fault> {
        self.silence += TICK;
        if self.open().any(|open| matches!(open.command.purpose, Purpose::Probe)) {
            let forgotten = "the server does not reply on a connection that was idle";
            return (self.silence > self.probe_limit()).then(|| Fault::new(forgotten));
        }
        // A caller may wait longer, and the server then gets that time.
        let timeout = self.open().map(|open| open.command.timeout).max();
        let limit = timeout.unwrap_or_default().max(SILENCE);
        (self.silence > limit + TICK).then(|| {
            Fault::new(format!("the server sent nothing for {:.1} s", limit.as_secs_f64()))
        })
    }

    /// Returns how long the server may take to reply to a probe. A slow network needs more than the minimum, but no caller
    /// waits longer than for a vote.
    fn probe_limit(&self) -> Duration {
        let (least, round_trips) = PROBE;
        (self.round_trip * round_trips).min(self.longest_vote.max(SILENCE)).max(least)
    }

    /// Ends the connection. Returns the commands without a reply, and whether any byte of each may have been sent.
    ///
    /// Bytes that TLS accepted count as sent.
    pub(super) fn end(&mut self) -> impl Iterator<Item = (InFlight, bool)> + use<> {
        self.send_gathered();
        let open = std::mem::take(&mut self.open);
        // Bytes are written in order, so the remaining ones belong to the last commands.
        let (mut unwritten, mut sent) = (self.unsent.len(), open.len());
        for last in open.iter().rev() {
            let Some(left) = unwritten.checked_sub(last.length()) else { break };
            (unwritten, sent) = (left, sent - 1);
        }
        let open = open.into_iter().enumerate();
        open.flat_map(move |(at, open)| {
            open.into_members().into_iter().map(move |open| (open, at < sent))
        })
    }
}
