//! The reader role: the reader of a connection, as one atomic word.
//!
//! The low bits are the reader, and the others count the changes. A thread therefore notices when its role has ended,
//! and the role of an ended connection never affects the next one. The task notices commands that were left to it
//! during its turn.
//!
//! `tests/models` checks every interleaving of these functions.

use crate::runtime::atomic::{AtomicU64, Ordering};

/// The bits of the reader.
const READER: u64 = 3;

#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub(super) enum Reader {
    /// The connection's task. A thread may take the role while no reply is outstanding.
    Task = 0,
    /// A thread or an event loop, until no reply is outstanding.
    Thread = 1,
    /// The task, which must first look for commands that were left to it.
    Called = 2,
}

pub(super) struct Role(AtomicU64);

/// Returns the word that follows `role`, with this reader.
fn next(role: u64, reader: Reader) -> u64 {
    (role | READER).wrapping_add(1) | reader as u64
}

fn reader(role: u64) -> Reader {
    match role & READER {
        0 => Reader::Task,
        1 => Reader::Thread,
        _ => Reader::Called,
    }
}

impl Role {
    /// Creates the role of a task that has not looked yet.
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(Reader::Called as u64))
    }

    pub(super) fn reader(&self) -> Reader {
        reader(self.now())
    }

    /// Whether this role has not ended.
    pub(super) fn is(&self, role: u64) -> bool {
        self.now() == role
    }

    /// Takes the role from a task that has looked. Called inside the session, while no reply is outstanding. Returns
    /// the role of the thread.
    pub(super) fn take(&self) -> Option<u64> {
        let role = self.now();
        let taken = next(role, Reader::Thread);
        (reader(role) == Reader::Task && self.change(role, taken)).then_some(taken)
    }

    /// Takes all submitted commands. If that returns true, ends the role of this reader: of a thread, because no reply
    /// is outstanding, or of a called task, because it has looked.
    pub(super) fn end_if(&self, of: Reader, look: impl FnOnce() -> bool) {
        // Before the look, which may not find a command that is left to the task from now on.
        let role = self.now();
        if look() && reader(role) == of {
            self.change(role, next(role, Reader::Task));
        }
    }

    /// Ends the role of any thread. The task must look for commands and read their replies.
    pub(super) fn give_to_task(&self) {
        // Also if it was called before, because it may look just now.
        let called = |role| Some(next(role, Reader::Called));
        let _ = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, called);
    }

    fn now(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    fn change(&self, from: u64, to: u64) -> bool {
        self.0.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }
}
