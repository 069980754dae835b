//! A value that one thread at a time uses, and that no thread waits for.
//!
//! A visitor that finds the value in use leaves a mark and goes on. The thread inside gets the marks as it leaves, and
//! then does what the visitors came for. A thread of any priority may therefore be suspended inside without blocking
//! another one.
//!
//! `tests/models` checks every interleaving of these functions.

use std::sync::{Mutex, TryLockError};

use super::atomic::{AtomicU32, Ordering};

/// A thread is inside.
const BUSY: u32 = 1;

/// The kinds of visitors, each with its mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Visitor {
    /// Any thread. The thread inside continues its work.
    Thread = 2,
    /// The task of the value. The thread inside wakes it.
    Task = 4,
}

/// The visitors that found the value in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Visitors(u32);

impl Visitors {
    /// Whether a visitor of this kind came.
    pub(crate) fn include(self, visitor: Visitor) -> bool {
        self.0 & visitor as u32 != 0
    }
}

/// A value that one thread at a time uses.
pub(crate) struct Exclusive<T> {
    state: AtomicU32,
    /// Locked only by the thread inside.
    value: Mutex<T>,
}

impl<T> Exclusive<T> {
    /// Creates one that is not in use.
    pub(crate) fn new(value: T) -> Self {
        Self { state: AtomicU32::new(0), value: Mutex::new(value) }
    }

    /// Uses the value. Returns the result, and the visitors that came meanwhile. Returns `None` if another thread is
    /// inside, which then gets the mark of this visitor.
    pub(crate) fn try_with<R>(
        &self,
        visitor: Visitor,
        act: impl FnOnce(&mut T) -> R,
    ) -> Option<(R, Visitors)> {
        let inside = self.enter(visitor)?;
        let mut value = match self.value.try_lock() {
            Ok(value) => value,
            Err(TryLockError::Poisoned(value)) => value.into_inner(),
            // Never, because one thread is inside.
            Err(TryLockError::WouldBlock) => return None,
        };
        let result = act(&mut value);
        drop(value);
        Some((result, inside.leave()))
    }

    fn enter(&self, visitor: Visitor) -> Option<Inside<'_>> {
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            let busy = state & BUSY != 0;
            let next = state | if busy { visitor as u32 } else { BUSY };
            // Release, also if the mark is there already: the thread inside must see what this one did before.
            match self.state.compare_exchange(state, next, Ordering::AcqRel, Ordering::Relaxed) {
                // Not `then_some`: dropping one that did not enter would let others in.
                Ok(_) => return (!busy).then(|| Inside(&self.state)),
                Err(changed) => state = changed,
            }
        }
    }
}

/// Leaves the value when it is dropped, as after a panic. The next thread inside then gets the marks.
struct Inside<'a>(&'a AtomicU32);

impl Inside<'_> {
    fn leave(self) -> Visitors {
        let state = self.0.swap(0, Ordering::AcqRel);
        std::mem::forget(self);
        Visitors(state & !BUSY)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.fetch_and(!BUSY, Ordering::AcqRel);
    }
}
