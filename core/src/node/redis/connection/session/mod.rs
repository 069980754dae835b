//! One open connection: writes commands and reads replies, without blocking.
//!
//! It moves the bytes between the socket and the [`protocol`](crate::node::redis::protocol). One thread at a time uses
//! it, and only briefly: a thread that waits for a reply, or the connection's own task ([`super::task`]).

mod reading;

use std::any::Any;
use std::io;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;

use crate::clock::Clock;
use crate::drivers::Poller;
use crate::node::Fault;
use crate::node::redis::io::socket::Socket;
use crate::node::redis::protocol::Backlog;
use crate::node::redis::protocol::{InFlight, Protocol};
use crate::runtime::poll_next;

/// The maximum number of bytes per read, which is some hundred replies. A higher limit would delay other connections.
const READ: usize = 16 << 10;
/// The error after a panic.
pub(super) const PANICKED: &str = "the node's task failed. This is a bug in redlock";

/// One open connection.
pub(crate) struct Session {
    /// The commands of the node. Closed once the client is gone.
    commands: UnboundedReceiver<InFlight>,
    protocol: Protocol,
    clock: Arc<dyn Clock>,
    /// Closed when dropped. It is reset first if the session ended with an error.
    socket: Socket,
    /// The buffer for the next bytes.
    read: Box<[u8]>,
    /// Whether the client exists, so that more commands may follow.
    more: bool,
    stage: SessionStage,
    /// Why it cannot be used any more.
    broken: Option<Fault>,
    /// The panic that ended it.
    panicked: Option<Box<dyn Any + Send>>,
}

/// The use of a session.
#[derive(PartialEq, Eq)]
enum SessionStage {
    /// Only the task reads, because the server may send notifications too.
    Begun,
    /// Threads may read.
    Shared,
    /// No more commands are taken, because another connection is to replace it.
    Leaving,
}

/// How a session was used until it ended.
#[derive(Clone, Copy, Default)]
pub(crate) struct Usage {
    /// Whether new commands waited for the next one.
    pub(crate) paused: bool,
    /// Whether the server ran a vote or a delete.
    pub(crate) voted: bool,
    /// Whether no command was under way at its end.
    pub(crate) unused: bool,
}

/// The state of a session for the connection's own task.
#[expect(clippy::struct_excessive_bools, reason = "each is a separate condition of the task")]
pub(super) struct SessionState {
    /// Whether replies are outstanding.
    pub(super) open: bool,
    /// Whether the client is gone.
    pub(super) gone: bool,
    /// Whether the client is gone, every command has its reply, and no delete is pending whose keys may exist.
    pub(super) idle: bool,
    /// Whether another connection is to replace it and every command has its reply.
    pub(super) left: bool,
    /// Whether deletes are pending, which are sent again over this connection: those that the server refused, and those
    /// whose keys a previous connection may set again.
    pub(super) pending_deletes: bool,
}

impl Session {
    /// Creates a session over a connection that is ready for locks.
    pub(super) fn new(
        protocol: Protocol,
        commands: UnboundedReceiver<InFlight>,
        clock: Arc<dyn Clock>,
        socket: Socket,
    ) -> Self {
        Self {
            commands,
            protocol,
            clock,
            socket,
            read: vec![0; READ].into(),
            more: true,
            stage: SessionStage::Begun,
            broken: None,
            panicked: None,
        }
    }

    /// Sends the pending deletes, then the commands that waited for the connection.
    pub(super) fn send_waiting(&mut self, waiting: Vec<InFlight>) {
        // The deletes come first. Otherwise a new vote for the same key would be refused by the old one.
        let now = self.clock.now();
        self.protocol.send_pending_deletes(now);
        for command in waiting {
            self.protocol.submit(command, true, now);
        }
    }

    /// Lets threads read it, because it carries only replies from now on.
    pub(super) fn share(&mut self) {
        if self.stage == SessionStage::Begun {
            self.stage = SessionStage::Shared;
        }
    }

    /// Has this poller watch the socket, instead of any other one. Returns the descriptor, which threads wait on.
    pub(super) fn watch(&mut self, poller: Option<(&Arc<Poller>, u64)>) -> io::Result<i32> {
        self.socket.watch(poller)
    }

    /// Takes the submitted commands and writes them, as far as there is room. Also writes what follows from replies.
    pub(super) fn write(&mut self) {
        let mut now = None;
        if !self.is_paused() && !self.commands.is_empty() {
            let (now, open) = (*now.insert(self.clock.now()), self.is_open());
            self.protocol.probe_if_idle(open, now);
        }
        while self.broken.is_none() && self.more && !self.is_paused() && self.protocol.has_room() {
            // A thread that submits a command at this moment writes it afterwards.
            match poll_next(&mut self.commands) {
                Poll::Ready(Some(command)) => {
                    let now = *now.get_or_insert_with(|| self.clock.now());
                    let last = self.commands.is_empty();
                    self.protocol.submit(command, last, now);
                    // A closed queue is read to its end, because the last command may have no reply.
                    if last && !self.commands.is_closed() {
                        break;
                    }
                }
                // Every sender is gone, and with them the client.
                Poll::Ready(None) => self.more = false,
                Poll::Pending => break,
            }
        }
        self.write_on();
    }

    /// Requests a confirmation if one is due, and writes what was encoded.
    fn write_on(&mut self) {
        self.protocol.request_confirmation(|| self.clock.now());
        if self.broken.is_some() || !self.is_unwritten() {
            return;
        }
        if let Err(error) = self.flush() {
            self.breaks(Fault::broken(&error));
        }
    }

    /// Writes as much as the socket accepts.
    fn flush(&mut self) -> io::Result<()> {
        loop {
            let bytes = self.protocol.bytes();
            if bytes.is_empty() {
                return self.socket.flush();
            }
            match self.socket.write(bytes) {
                Ok(written) => self.protocol.written(written),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends a command of the connection itself.
    pub(super) fn send(&mut self, in_flight: InFlight) {
        self.protocol.send(in_flight, self.clock.now());
    }

    /// Ends the acquires in flight, because the process ends.
    pub(super) fn cancel_votes(&mut self) {
        self.protocol.cancel_votes(self.clock.now());
    }

    /// Sends pending deletes again if it is time for that. Called once per second.
    pub(super) fn retry_deletes(&mut self) {
        self.protocol.retry_deletes(self.clock.now());
    }

    /// Takes no more commands, so that another connection can replace it once every command has its reply.
    pub(super) fn leave(&mut self) {
        self.stage = SessionStage::Leaving;
    }

    /// Whether commands wait, for the reply to a probe or for another connection.
    pub(super) fn is_paused(&self) -> bool {
        self.stage == SessionStage::Leaving || self.protocol.is_probing()
    }

    /// How it was used so far.
    pub(super) fn usage(&self) -> Usage {
        let replies = self.protocol.replies();
        let unused = !self.is_open() && !replies.distrusted;
        Usage { paused: self.is_paused(), voted: replies.voted, unused }
    }

    /// Ends it with an error.
    pub(super) fn breaks(&mut self, fault: Fault) {
        self.broken.get_or_insert(fault);
    }

    /// Ends it with a panic.
    pub(super) fn panicked(&mut self, by: Box<dyn Any + Send>) {
        self.breaks(Fault::new(PANICKED));
        self.panicked = Some(by);
    }

    /// Returns why it cannot be used any more, if so.
    pub(super) fn why_broken(&mut self) -> Option<(Fault, Option<Box<dyn Any + Send>>)> {
        self.broken.clone().map(|fault| (fault, self.panicked.take()))
    }

    /// Returns the number of commands so far.
    pub(super) fn sent(&self) -> u64 {
        self.protocol.count()
    }

    /// Whether replies are outstanding.
    pub(super) fn is_open(&self) -> bool {
        self.protocol.is_open()
    }

    /// Whether something waits for room to be written.
    pub(super) fn is_unwritten(&self) -> bool {
        self.protocol.is_unwritten() || self.socket.is_unflushed()
    }

    /// Whether the connection's own task must write and read.
    pub(super) fn wants_task(&self) -> bool {
        self.stage != SessionStage::Shared
            || self.broken.is_some()
            || !self.more
            || self.is_unwritten()
            || self.is_paused()
    }

    pub(super) fn state(&self) -> SessionState {
        let (open, unwritten) = (self.is_open(), self.is_unwritten());
        let idle = !self.more && !open && !unwritten;
        SessionState {
            open,
            gone: !self.more,
            left: self.stage == SessionStage::Leaving && !open && !unwritten,
            // Also those that are only repeated, because a previous connection may set their keys again.
            idle: idle && !self.protocol.pending.has_unexpired(self.clock.now()),
            pending_deletes: !self.protocol.pending.is_empty(),
        }
    }

    /// Called regularly while it is in use. Returns an error if the server is silent for too long.
    pub(super) fn tick(&mut self) -> Option<Fault> {
        if self.is_open() { self.protocol.count_silence() } else { None }
    }

    /// Returns how long the server may be silent, by the longest timeout of an outstanding command.
    pub(super) fn silence_limit(&self) -> Duration {
        self.protocol.silence_limit()
    }

    /// Whether nothing was read between the last two ticks, although replies were outstanding.
    pub(super) fn is_silent(&self) -> bool {
        self.protocol.is_silent()
    }

    /// Ends it. Commands without a reply fail, unless it ended well.
    pub(super) fn into_backlog(self, fault: Option<&Fault>) -> Backlog {
        if fault.is_some() {
            self.socket.reset_on_drop();
        }
        let pending = self.protocol.into_pending(fault, self.clock.now());
        Backlog { commands: self.commands, pending }
    }
}
