//! The queue of items for an event loop, and its wake-up.

use std::collections::VecDeque;

use pyo3::prelude::*;
use redlock::ffi::{Completions, fork_generation};

use super::pipe::WakePipe;
use super::watch::LossNotification;

/// Converts a result to a Python object, on the loop's thread. If it is dropped without a call, it releases a lease in
/// the result.
pub(super) type Reply = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

/// An item for an event loop.
pub(super) enum Item {
    /// The number of a call, and its result.
    Reply(u64, Reply),
    /// A lease was lost.
    Lost(LossNotification),
}

/// How an event loop is woken.
pub(super) enum WakeUp {
    /// By one byte, without the GIL.
    Byte(WakePipe),
    /// By a function that makes another thread wake it.
    Thread(Box<dyn Fn() + Send + Sync>),
}

/// The sending end. Any thread may push items.
pub(super) struct Queue {
    items: Completions<Item>,
    wake_up: WakeUp,
    /// The process of the loop. In a forked child, a lock that a thread of the parent held is never released.
    generation: u32,
}

impl Queue {
    /// Creates a queue for a loop that `wake_up` wakes.
    pub(super) fn new(wake_up: WakeUp) -> Self {
        Self { items: Completions::new(), wake_up, generation: fork_generation() }
    }

    /// Takes all items.
    pub(super) fn take(&self) -> VecDeque<Item> {
        self.items.take(usize::MAX).0
    }

    /// Adds items from any thread, and wakes the loop.
    pub(super) fn push(&self, items: impl IntoIterator<Item = Item>) {
        if self.generation != fork_generation() {
            return;
        }
        self.items.push(items);
        if !self.items.must_wake() {
            return;
        }
        match &self.wake_up {
            WakeUp::Byte(end) => end.wake(),
            WakeUp::Thread(wake) => wake(),
        }
    }
}
