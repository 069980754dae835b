//! The reader role: which one of the waiting threads reads the replies of a connection, as one atomic word.
//!
//! The low bits are the kind of reader, and the others count the changes. A thread therefore notices when its role has
//! ended, and the role of an ended connection never affects the next one.
//!
//! `tests/models` checks every interleaving of these functions.

use crate::runtime::atomic::{AtomicU64, Ordering};

/// The bits of the kind.
const KIND: u64 = 3;
/// No thread reads. The background thread does, until a thread takes the role.
const FREE: u64 = 0;
/// A thread or an event loop.
const THREAD: u64 = 1;
/// Only the background thread, because notifications arrive here, or because there is no connection.
const BACKGROUND: u64 = 2;

/// The reader role of a connection.
pub(super) struct Role(AtomicU64);

/// The result of [`Role::take`].
pub(super) enum Taken {
    /// This thread has the role now, under this number.
    Role(u64),
    /// Another thread has it.
    ByThread,
    /// Only the background thread may read.
    ByBackground,
}

/// Returns the word that follows `role`, of this kind.
fn next(role: u64, kind: u64) -> u64 {
    (role | KIND).wrapping_add(1) | kind
}

impl Role {
    /// Creates the role of the background thread.
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(BACKGROUND))
    }

    /// Lets threads take the role.
    pub(super) fn share(&self) {
        let free = |role| (role & KIND == BACKGROUND).then(|| next(role, FREE));
        let _ = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, free);
    }

    /// Takes the role if it is free.
    pub(super) fn take(&self) -> Taken {
        let role = self.0.load(Ordering::SeqCst);
        if role & KIND == BACKGROUND {
            return Taken::ByBackground;
        }
        let taken = next(role, THREAD);
        let free = role & KIND == FREE
            && self.0.compare_exchange(role, taken, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        if free { Taken::Role(taken) } else { Taken::ByThread }
    }

    /// Releases the role. Returns false if it had ended.
    pub(super) fn release(&self, role: u64) -> bool {
        let free = next(role, FREE);
        self.0.compare_exchange(role, free, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Ends the role of any thread, and lets no other thread take it.
    pub(super) fn end(&self) {
        let ended = |role| Some(next(role, BACKGROUND));
        let _ = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, ended);
    }

    /// Whether this role has not ended.
    pub(super) fn is(&self, role: u64) -> bool {
        self.0.load(Ordering::SeqCst) == role
    }

    /// Whether a thread has the role.
    pub(super) fn is_of_thread(&self) -> bool {
        self.0.load(Ordering::SeqCst) & KIND == THREAD
    }
}
