//! The queue of items for an event loop, and its wake-up.

use std::collections::VecDeque;

use pyo3::prelude::*;
use redlock::ffi::{Completions, Dependent, Made, Owned};

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
    /// In a forked child, a lock that a thread of the parent held is never released.
    items: Made<Completions<Item>>,
    wake_up: Owned<WakeUp>,
}

impl Queue {
    /// Creates a queue for a loop that `wake_up` wakes.
    pub(super) fn new(wake_up: WakeUp) -> Self {
        Self { items: Made::default(), wake_up: Owned::new(wake_up) }
    }

    /// Takes all items.
    pub(super) fn take(&self) -> VecDeque<Item> {
        self.items.take(usize::MAX).0
    }

    /// Adds items from any thread, and wakes the loop.
    pub(super) fn push(&self, items: impl IntoIterator<Item = Item>) {
        let Some(queue) = self.items.ours() else { return };
        queue.push(items);
        // If the program has closed the pipe, an earlier byte may be lost with it.
        let is_open = self.wake_up.is_ours();
        if !queue.must_wake() && is_open {
            return;
        }
        match &*self.wake_up {
            WakeUp::Byte(end, _) if is_open => end.wake(),
            WakeUp::Byte(_, number) => waker::wake_later(*number),
            WakeUp::Thread(wake) => wake(),
        }
    }
}

impl Dependent for Queue {
    fn thread_ended(&self) {}

    /// The calls of the loop have ended, and cannot wake it through the pipe.
    fn all_notified(&self) {
        self.push([]);
    }
}
