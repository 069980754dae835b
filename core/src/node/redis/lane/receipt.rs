//! What came to a thread that waited in a socket, until whoever has the session takes it.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};

/// So much comes at once. What one thread asks has less for its answer; the rest stays in the socket.
const ROOM: usize = 2048;

/// Between the thread that waits and whoever has the session.
#[derive(Default)]
pub(super) struct Receipts {
    /// Odd while a thread waits in the socket, or is about to: that must not be closed. It changes each time.
    waits: AtomicU64,
    /// What came last. Locked by who waits, and for a moment by who takes it.
    last: Mutex<Receipt>,
}

/// What came.
pub(super) struct Receipt {
    pub(super) bytes: [u8; ROOM],
    /// How much it was; `None`: it was taken.
    pub(super) came: Option<io::Result<usize>>,
}

impl Default for Receipt {
    fn default() -> Self {
        Self { bytes: [0; ROOM], came: None }
    }
}

impl Receipts {
    /// A thread is about to wait; or waits no more.
    pub(super) fn turns(&self) {
        self.waits.fetch_add(1, Ordering::SeqCst);
    }

    /// Who waits now, if somebody does.
    pub(super) fn waits(&self) -> Option<u64> {
        Some(self.waits.load(Ordering::SeqCst)).filter(|waits| waits % 2 == 1)
    }

    /// `None`: another thread waits, or takes it just now.
    pub(super) fn last(&self) -> Option<MutexGuard<'_, Receipt>> {
        match self.last.try_lock() {
            Ok(receipt) => Some(receipt),
            Err(TryLockError::Poisoned(receipt)) => Some(receipt.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}
