//! The queue of items for an event loop, and its wake-up.

use std::collections::VecDeque;

use pyo3::prelude::*;
use redlock::ffi::{Completions, fork_generation};

use super::pipe::Ring;
use super::watch::Word;

/// Turns an outcome into a Python object, on the loop's thread. One that is never called releases what it carries.
pub(super) type Reply = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

/// What waits for an event loop.
pub(super) enum Item {
    /// Which call it answers, and with what.
    Reply(u64, Reply),
    /// A lease was lost.
    Lost(Word),
}

/// How an event loop is woken.
pub(super) enum WakeUp {
    /// By one byte, without the GIL.
    Byte(Ring),
    /// By another thread, which this asks to.
    Thread(Box<dyn Fn() + Send + Sync>),
}

/// The end that any thread may push into.
pub(super) struct Queue {
    items: Completions<Item>,
    wake_up: WakeUp,
    /// The process of the loop. In a forked child, a lock that a thread of the parent held is never released.
    generation: u32,
}

impl Queue {
    /// Of a loop that `wake_up` wakes.
    pub(super) fn new(wake_up: WakeUp) -> Self {
        Self { items: Completions::new(), wake_up, generation: fork_generation() }
    }

    /// All that there is.
    pub(super) fn take(&self) -> VecDeque<Item> {
        self.items.take(usize::MAX).0
    }

    /// From any thread.
    pub(super) fn push(&self, items: impl IntoIterator<Item = Item>) {
        if self.generation != fork_generation() {
            return;
        }
        self.items.push(items);
        if !self.items.must_wake() {
            return;
        }
        match &self.wake_up {
            WakeUp::Byte(end) => end.ring(),
            WakeUp::Thread(ring) => ring(),
        }
    }
}
