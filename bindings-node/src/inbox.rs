//! Outcomes on their way to a JavaScript thread: a queue, and one wake-up of the event loop for many.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::calls::Ended;
use crate::wake::{Callback, Wake};

/// Outcomes on their way to one JavaScript thread.
#[derive(Default)]
pub(crate) struct Queue {
    outcomes: Mutex<VecDeque<Ended>>,
    /// A wake-up is under way that has not looked into the queue yet.
    waking: AtomicBool,
}

impl Queue {
    fn outcomes(&self) -> MutexGuard<'_, VecDeque<Ended>> {
        self.outcomes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The oldest outcomes, at most so many, and whether more are left.
    pub(crate) fn take(&self, most: usize) -> (VecDeque<Ended>, bool) {
        // Before the queue is emptied: what is pushed in between wakes once more, rather than not at all.
        self.waking.store(false, Ordering::SeqCst);
        let mut outcomes = self.outcomes();
        let rest = if outcomes.len() > most { outcomes.split_off(most) } else { VecDeque::new() };
        let more = !rest.is_empty();
        (std::mem::replace(&mut *outcomes, rest), more)
    }
}

/// The end of the queue that any thread may push into.
pub(crate) struct Inbox {
    queue: Arc<Queue>,
    wake: Wake,
    /// Nobody is there any more to hear of outcomes.
    deserted: AtomicBool,
}

impl Inbox {
    pub(crate) fn new(queue: Arc<Queue>, wake: Wake) -> Self {
        Self { queue, wake, deserted: AtomicBool::new(false) }
    }

    pub(crate) fn push(&self, outcomes: impl IntoIterator<Item = Ended>) {
        let mut queue = self.queue.outcomes();
        queue.extend(outcomes);
        let empty = queue.is_empty();
        drop(queue);
        if !empty {
            self.wake();
        }
    }

    pub(crate) fn wake(&self) {
        if self.queue.waking.swap(true, Ordering::SeqCst) {
            return;
        }
        if !self.wake.call() {
            // The environment has ended: nobody will see these.
            drop(self.queue.take(usize::MAX));
        }
    }

    /// Whether the process, and with it who hears of outcomes, is to be kept. On the JavaScript thread alone.
    pub(crate) fn keep(&self, hearer: &Callback, on: bool) {
        self.wake.keep(hearer, on);
    }

    pub(crate) fn desert(&self) {
        self.deserted.store(true, Ordering::SeqCst);
    }

    pub(crate) fn alive(&self) -> bool {
        self.wake.alive() && !self.deserted.load(Ordering::SeqCst)
    }
}
