//! One open connection: what is asked goes out, what is answered comes in. Nobody waits in it.
//!
//! It moves bytes; what they mean is [`super::dialogue`]'s. One thread at a time has it, for a moment: a thread that waits for
//! an answer reads it by itself, and else the connection's own task does ([`super::lane`], [`super::keeper`]).

mod reading;

use std::any::Any;
use std::io;

use tokio::sync::mpsc::error::TryRecvError;

use super::context::Context;
use super::dialogue::Dialogue;
use super::in_flight::InFlight;
use super::reader::Reader;
use super::socket::Socket;
use crate::node::Fault;

/// So much is read at once.
/// Some hundred answers. Not more: what one server says must not hold up the others.
const READ: usize = 16 << 10;

/// An answer of more bytes than this is none of ours; no memory is spent on the rest of it. The parser itself reserves
/// nothing for what a header promises.
pub(super) const LARGEST: usize = 1 << 20;

/// One open connection.
pub(super) struct Session {
    /// What was asked, what is owed, and who is told.
    pub(super) dialogue: Dialogue,
    /// Dropped, it is closed; reset first where the session ended broken.
    socket: Socket,
    /// What was read, and is not understood yet.
    reader: Reader,
    /// Where the next bytes come.
    read: Box<[u8]>,
    /// The client is there: there may be more to ask.
    more: bool,
    /// Why it is of no use any more.
    broken: Option<Fault>,
    /// What it broke by, if that was a panic.
    panicked: Option<Box<dyn Any + Send>>,
    /// Until so many have had their answer, the connection's own task reads: it waits for them, or nobody does.
    kept: u64,
    /// A thread waits in the socket for what comes: nobody else may read, or bytes would come in another order.
    lent: bool,
    /// One may.
    may_lend: bool,
}

/// What its own task wants to know of it.
#[expect(clippy::struct_excessive_bools, reason = "each reply belongs to its own command")]
pub(super) struct Standing {
    /// Answers are still to come.
    pub(super) open: bool,
    /// Nobody is left who asks.
    pub(super) gone: bool,
    /// The same, and everything was answered.
    pub(super) idle: bool,
    /// Another connection is to replace it, and everything was answered.
    pub(super) left: bool,
    /// There is something to do from time to time that nobody asks for.
    pub(super) chores: bool,
    /// Its own task is to read what comes.
    pub(super) kept: bool,
}

impl Session {
    /// Over a connection that is ready for locks.
    pub(super) fn new(dialogue: Dialogue, socket: Socket, reader: Reader) -> Self {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let may_lend = socket.may_wait();
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        let may_lend = false;
        Self {
            dialogue,
            socket,
            reader,
            read: vec![0; READ].into(),
            more: true,
            broken: None,
            panicked: None,
            kept: 0,
            lent: false,
            may_lend,
        }
    }

    /// By what threads wait for it.
    #[cfg(unix)]
    pub(super) fn descriptor(&self) -> i32 {
        self.socket.descriptor()
    }

    /// Takes what was asked and writes it, as far as there is room; true if something was asked.
    pub(super) fn write(&mut self) -> bool {
        let mut asked = false;
        self.dialogue.probe_if_idle();
        if self.dialogue.is_paused() {
            self.keep();
        }
        while self.broken.is_none() && self.more && self.has_room() {
            match self.dialogue.context.commands.try_recv() {
                Ok(command) => {
                    asked = true;
                    self.dialogue.take(command);
                }
                Err(TryRecvError::Empty) => break,
                // Every sender is gone, and with them the client.
                Err(TryRecvError::Disconnected) => self.more = false,
            }
        }
        self.dialogue.ask_to_confirm();
        self.write_on();
        asked
    }

    /// Whether more commands may be sent.
    fn has_room(&self) -> bool {
        !self.dialogue.is_paused() && self.dialogue.pipeline.has_room()
    }

    /// Writes what follows from what was read, and what waited for a probe if that is over; its own task reads those replies.
    fn write_after(&mut self, probing: bool) {
        if probing && !self.dialogue.is_probing() {
            self.write();
            return self.keep();
        }
        self.dialogue.ask_to_confirm();
        self.write_on();
    }

    /// Writes what was taken already.
    fn write_on(&mut self) {
        if self.broken.is_some() || !self.is_unwritten() {
            return;
        }
        if let Err(error) = self.dialogue.pipeline.write(&mut self.socket) {
            self.breaks(broken(&error));
        }
    }

    /// A command of the connection's own.
    pub(super) fn ask(&mut self, in_flight: InFlight) {
        self.dialogue.ask(in_flight);
        self.keep();
        self.write_on();
    }

    /// Takes no more commands, so that another connection can replace it once everything was answered.
    pub(super) fn leave(&mut self) {
        self.dialogue.leave();
        self.keep();
    }

    /// Its own task reads until all that is asked by now is answered.
    pub(super) fn keep(&mut self) {
        self.kept = self.dialogue.pipeline.counts().0;
    }

    /// Another thread waits for it: unless its own task has to, that is not woken by what comes.
    pub(super) fn leave_to_threads(&mut self) {
        if !self.is_kept() {
            self.socket.unlist();
        }
    }

    /// It is of no use any more.
    pub(super) fn breaks(&mut self, fault: Fault) {
        self.broken.get_or_insert(fault);
    }

    /// The same, by a panic.
    pub(super) fn panicked(&mut self, by: Box<dyn Any + Send>) {
        self.breaks(Fault::new(PANICKED));
        self.panicked = Some(by);
    }

    /// Why it is of no use any more, if it is not.
    pub(super) fn why_broken(&mut self) -> Option<(Fault, Option<Box<dyn Any + Send>>)> {
        self.broken.clone().map(|fault| (fault, self.panicked.take()))
    }

    /// Whether answers are still to come.
    pub(super) fn is_open(&self) -> bool {
        self.dialogue.pipeline.is_open()
    }

    /// Whether somebody has to wait for room to write.
    pub(super) fn is_unwritten(&self) -> bool {
        self.dialogue.pipeline.is_unwritten() || self.socket.is_unflushed()
    }

    /// Whether its own task has to do with it: it broke, or somebody has to wait for room to write.
    pub(super) fn wants_task(&self) -> bool {
        self.broken.is_some() || !self.more || self.is_unwritten() || self.dialogue.is_paused()
    }

    /// Its own task is to read what comes.
    pub(super) fn is_kept(&self) -> bool {
        self.dialogue.pipeline.counts().1 < self.kept || self.is_unwritten()
    }

    /// How it stands.
    pub(super) fn standing(&self) -> Standing {
        let (open, unwritten) = (self.is_open(), self.is_unwritten());
        Standing {
            open,
            gone: !self.more,
            left: self.dialogue.is_leaving() && !open && !unwritten,
            idle: !self.more && !open && !unwritten && !self.dialogue.has_refused_deletes(),
            chores: self.dialogue.has_chores(),
            kept: self.is_kept(),
        }
    }

    /// The end; what has no answer is refused, unless it ended well. And the socket, if a thread waits in it.
    pub(super) fn end(mut self, fault: Option<&Fault>) -> (Context, Option<Socket>) {
        if let Some(fault) = fault {
            self.socket.reset_on_drop();
            self.dialogue.broken(fault);
        }
        #[cfg(any(target_os = "linux", target_os = "android"))]
        if self.lent {
            self.socket.shutdown();
        }
        (self.dialogue.context, self.lent.then_some(self.socket))
    }
}

/// What a panic leaves behind.
pub(super) const PANICKED: &str = "the node's task failed. This is a bug in redlock";

/// In the words of the system, which name no secret.
fn broken(error: &io::Error) -> Fault {
    Fault::new(format!("the connection broke: {error}")).by(error)
}
