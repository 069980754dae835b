//! The queue of items for an event loop, and its wake-up.

use std::collections::VecDeque;

use pyo3::prelude::*;
use redlock::ffi::{Completions, Dependent, descriptor_generation, fork_generation};

use super::pipe::WakePipe;
use super::waker;
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
    /// By one byte, without the GIL. After the program has closed the pipe, the thread of `waker` wakes the loop with
    /// this number.
    Byte(WakePipe, u64),
    /// By a function that makes another thread wake it.
    Thread(Box<dyn Fn() + Send + Sync>),
}

/// The sending end. Any thread may push items.
pub(super) struct Queue {
    items: Completions<Item>,
    wake_up: WakeUp,
    /// The process of the loop. In a forked child, a lock that a thread of the parent held is never released.
    generation: u32,
    /// That of the pipe.
    descriptors: u32,
}

impl Queue {
    /// Creates a queue for a loop that `wake_up` wakes.
    pub(super) fn new(wake_up: WakeUp) -> Self {
        let (generation, descriptors) = (fork_generation(), descriptor_generation());
        Self { items: Completions::new(), wake_up, generation, descriptors }
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
        if !self.items.must_wake() && self.has_descriptors() {
            return;
        }
        match &self.wake_up {
            WakeUp::Byte(end, _) if self.has_descriptors() => end.wake(),
            WakeUp::Byte(_, number) => waker::wake_later(*number),
            WakeUp::Thread(wake) => wake(),
        }
    }

    /// Whether the program has not closed the pipe. An earlier byte may be lost with it.
    fn has_descriptors(&self) -> bool {
        self.descriptors == descriptor_generation()
    }
}

impl Dependent for Queue {
    fn thread_ended(&self) {}

    /// The calls of the loop have ended, and cannot wake it through the pipe.
    fn all_notified(&self) {
        self.push([]);
    }
}
