//! What came to a thread that waited in a socket, until whoever has the session takes it.

use std::io;
use std::sync::{Mutex, MutexGuard, TryLockError};

/// So much comes at once. What one thread asks has less for its answer; the rest stays in the socket.
const ROOM: usize = 2048;

/// What came. Whoever waits in the socket has it locked.
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

/// The receipt, if nobody waits.
pub(super) fn free(receipt: &Mutex<Receipt>) -> Option<MutexGuard<'_, Receipt>> {
    match receipt.try_lock() {
        Ok(receipt) => Some(receipt),
        Err(TryLockError::Poisoned(receipt)) => Some(receipt.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}
