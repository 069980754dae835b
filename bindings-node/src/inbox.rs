//! Outcomes on their way to a JavaScript thread: a queue, and one wake-up of the event loop for many.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use napi::bindgen_prelude::FnArgs;
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi::{Status, sys};

use crate::calls::Ended;
use crate::outcome::Outcome;

/// Wakes the event loop. Weak: it does not keep the process alive by itself.
pub(crate) type Wake = ThreadsafeFunction<(), (), FnArgs<(u32, Vec<Outcome>)>, Status, false, true>;

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
}

impl Inbox {
    pub(crate) fn new(queue: Arc<Queue>, wake: Wake) -> Self {
        Self { queue, wake }
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
        if self.wake.call((), ThreadsafeFunctionCallMode::NonBlocking) != Status::Ok {
            // The environment has ended: nobody will see these.
            drop(self.queue.take(usize::MAX));
        }
    }

    /// To be used on the JavaScript thread alone, which it belongs to.
    pub(crate) fn handle(&self) -> sys::napi_threadsafe_function {
        self.wake.raw()
    }

    pub(crate) fn alive(&self) -> bool {
        !self.wake.aborted()
    }
}
