//! What was asked over a connection and is not answered yet: answers come in the order of the commands.
//!
//! It holds bytes and commands side by side and knows the meaning of neither; the order of both is the same,
//! which is how an answer finds its command, and how it is told what was never sent.

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

/// How often silence is looked for.
/// A quarter of the shortest silence that counts: the error is a tick at most.
pub(super) const TICK: Duration = Duration::from_millis(250);
/// A server silent for this long with commands open is dead, unless a caller listens for longer.
///
/// No vote's deadline ends a connection: one short ttl must not cost a long lease its way to the node.
pub(super) const SILENCE: Duration = Duration::from_secs(1);
/// Unsent bytes beyond which no more commands are taken: the server reads nothing.
/// Some twenty thousand acquires: less would slow a burst down.
const FULL: usize = 4 << 20;

/// Commands on their way, and the bytes that are still to be written.
pub(super) struct Pipeline {
    /// Whole commands, but for the first, of which a part may be written already.
    unsent: BytesMut,
    /// In the order in which they were sent.
    open: VecDeque<Question>,
    /// What goes out together with more of its kind, as soon as something else is asked, or all is written.
    gathered: Gathering,
    /// Keys that were given back with others.
    returned: Returned,
    /// Which kinds go out together: not those that the server refused.
    gathers: [bool; KINDS],
    /// How many were asked so far.
    asked: u64,
    /// How many of them have had their answer.
    answered: u64,
    /// Time with commands open in which nothing was read, counted by ticks so that our own pause is not the server's.
    silence: Duration,
}

impl Pipeline {
    /// Nothing is asked yet. `gathers`: some may go out together, which a cluster takes only of keys in one slot.
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
        }
    }

    /// Asks this, behind everything that was asked before. `last`: nothing else is to be asked in this moment.
    pub(super) fn add(&mut self, in_flight: InFlight, last: bool) {
        // The server had nothing to say until now.
        if !self.is_open() {
            self.silence = Duration::ZERO;
        }
        self.asked += 1;
        if last && self.gathered.members.is_empty() {
            return self.send(in_flight);
        }
        let joint = Joint::of(&in_flight).filter(|joint| {
            // Of a key that was ours it is known that it holds no data of somebody's, which would be read as a whole.
            let ours = joint.kind.at != ATTEMPTS || self.returned.has(joint.key(&in_flight));
            self.gathers[joint.kind.at] && ours
        });
        if !self.gathered.is_of(joint.map(|joint| joint.kind)) {
            self.send_gathered();
        }
        let Some(joint) = joint else { return self.send(in_flight) };
        // Nobody listens where only a vote is taken back.
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

    /// What is of this one's kind goes out one by one from now on.
    pub(super) fn stop_gathering(&mut self, one: &InFlight) {
        if let Some(joint) = Joint::of(one) {
            self.gathers[joint.kind.at] = false;
        }
    }

    /// No attempt goes out with others from now on.
    pub(super) fn stop_attempts(&mut self) {
        self.gathers[ATTEMPTS] = false;
    }

    /// Whose the next answer is, if it is one's of many that has more to come, behind those of the others.
    pub(super) fn next_of_many(&mut self) -> Option<&mut InFlight> {
        match self.open.front_mut()? {
            Question::Together(group) => group.next(),
            Question::Alone(_) => None,
        }
    }

    /// The question that the next answer belongs to.
    pub(super) fn next(&mut self) -> Option<Question> {
        let next = self.open.pop_front()?;
        self.answered += next.members().len() as u64;
        Some(next)
    }

    /// A command of which only a part of the answer came: the next one is its, too.
    pub(super) fn put_back(&mut self, in_flight: InFlight) {
        self.answered -= 1;
        self.open.push_front(Question::Alone(in_flight));
    }

    /// How many were asked so far, and how many of them have had their answer.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.asked, self.answered)
    }

    /// What is asked and not answered, in its order.
    pub(super) fn open(&self) -> impl Iterator<Item = &InFlight> {
        self.open.iter().flat_map(Question::members).chain(&self.gathered.members)
    }

    /// Whether there is something to write.
    pub(super) fn is_unwritten(&self) -> bool {
        !self.unsent.is_empty() || !self.gathered.members.is_empty()
    }

    /// Whether answers are still to come.
    pub(super) fn is_open(&self) -> bool {
        !self.open.is_empty() || !self.gathered.members.is_empty()
    }

    /// Whether the server reads what it is sent.
    pub(super) fn has_room(&self) -> bool {
        self.unsent.len() < FULL
    }

    /// Writes what the socket takes at once; false where it took less than all.
    ///
    /// What was written is taken off, the rest stays.
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

    /// Something was read.
    pub(super) fn heard(&mut self) {
        self.silence = Duration::ZERO;
    }

    /// A tick in which nothing was read; a fault once there were too many.
    pub(super) fn count_silence(&mut self) -> Option<Fault> {
        self.silence += TICK;
        if self.open().any(|open| matches!(open.command.purpose, Purpose::Probe)) {
            // Callers wait for it, and a new connection takes its time.
            let forgotten = "the server does not answer over a connection that was idle";
            return (self.silence > TICK).then(|| Fault::new(forgotten));
        }
        // Somebody may listen for longer than that: the server is given as long.
        let timeout = self.open().map(|open| open.command.timeout).max();
        let limit = timeout.unwrap_or_default().max(SILENCE);
        (self.silence > limit + TICK)
            .then(|| Fault::new(format!("the server was silent for {:.1} s", limit.as_secs_f64())))
    }

    /// The connection has ended: the commands without an answer, each with whether any byte of it may have been
    /// written.
    ///
    /// Where TLS took the bytes they count as written: whether they were, nobody can say.
    pub(super) fn end(&mut self) -> impl Iterator<Item = (InFlight, bool)> + use<> {
        self.send_gathered();
        let open = std::mem::take(&mut self.open);
        // Bytes are written in order: what is left of them are the last commands.
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
