//! One JavaScript thread's event loop, as other threads see it: what is done is left there, and it is woken to look.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redlock::ffi::Completions;

use super::wake::{Callback, Wake};
use crate::outcome::Ended;

/// What the event loop has not seen yet.
pub(crate) type Queue = Arc<Completions<Ended>>;

/// An event loop; any thread may leave outcomes for it.
pub(crate) struct EventLoop {
    queue: Queue,
    wake: Wake,
    /// Nobody is there any more to hear of outcomes.
    deserted: AtomicBool,
}

impl EventLoop {
    /// `wake` runs what looks into the queue.
    pub(crate) fn new(queue: Queue, wake: Wake) -> Self {
        Self { queue, wake, deserted: AtomicBool::new(false) }
    }

    /// Leaves these to be seen soon.
    pub(crate) fn push(&self, outcomes: impl IntoIterator<Item = Ended>) {
        self.queue.push(outcomes);
        self.wake();
    }

    /// The oldest outcomes, at most so many; the loop comes back for more by itself. On the JavaScript thread alone.
    pub(crate) fn take(&self, most: usize) -> VecDeque<Ended> {
        let (outcomes, more) = self.queue.take(most);
        if more {
            self.wake();
        }
        outcomes
    }

    fn wake(&self) {
        if self.queue.must_wake() && !self.wake.call() {
            // The environment has ended: nobody will see these.
            drop(self.queue.take(usize::MAX));
        }
    }

    /// Whether the process, and with it who hears of outcomes, is to be kept. On the JavaScript thread alone.
    pub(crate) fn keep(&self, hearer: &Callback, on: bool) {
        self.wake.keep(hearer, on);
    }

    /// Nobody hears of outcomes here from now on.
    pub(crate) fn desert(&self) {
        self.deserted.store(true, Ordering::SeqCst);
    }

    /// Whether somebody would hear of outcomes.
    pub(crate) fn alive(&self) -> bool {
        self.wake.alive() && !self.deserted.load(Ordering::SeqCst)
    }
}
