//! The event loop of one JavaScript thread. Other threads queue outcomes for it and wake it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use redlock::ffi::{Completions, Record, Topic};

use super::wake::{Callback, Wake};
use crate::outcome::{Ended, Outcome};

/// The outcomes that the event loop has not read yet.
pub(crate) type Queue = Arc<Completions<Ended>>;

/// An event loop. Any thread can queue outcomes for it.
pub(crate) struct EventLoop {
    queue: Queue,
    wake: Wake,
    /// The callback for outcomes is gone.
    deserted: AtomicBool,
    /// The topics whose steps the program requested, one bit for each.
    steps: AtomicU32,
    /// Number of steps in the queue.
    unseen: AtomicUsize,
    /// Number of steps that were dropped since the last one was delivered.
    dropped: AtomicUsize,
}

/// Maximum number of steps in the queue.
const ROOM: usize = 10_000;

impl EventLoop {
    /// `wake` runs the function that reads the queue.
    pub(crate) fn new(queue: Queue, wake: Wake) -> Self {
        let (deserted, steps) = (AtomicBool::new(false), AtomicU32::new(0));
        let (unseen, dropped) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { queue, wake, deserted, steps, unseen, dropped }
    }

    /// Sets the topics whose steps the event loop receives.
    pub(super) fn want_steps(&self, topics: u32) {
        self.steps.store(topics, Ordering::Relaxed);
    }

    /// Whether the event loop receives the steps of this topic.
    pub(super) fn wants_steps(&self, topic: Topic) -> bool {
        self.steps.load(Ordering::Relaxed) & (1 << topic as u32) != 0
    }

    /// Queues a step and wakes the loop. Drops the step if the queue is full.
    pub(super) fn push_step(&self, step: &Record) {
        if self.unseen.fetch_add(1, Ordering::Relaxed) < ROOM {
            let outcome = Outcome::Step(Box::new(step.clone()), 0);
            self.push([Ended { slot: 0, number: 0, outcome }]);
        } else {
            self.unseen.fetch_sub(1, Ordering::Relaxed);
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Removes a step from the count. Returns how many were dropped since the last one.
    pub(super) fn saw_step(&self) -> usize {
        self.unseen.fetch_sub(1, Ordering::Relaxed);
        self.dropped.swap(0, Ordering::Relaxed)
    }

    /// Queues outcomes without waking the loop, because the caller reads them. JavaScript thread only.
    pub(super) fn add(&self, outcomes: impl IntoIterator<Item = Ended>) {
        self.queue.push(outcomes);
    }

    /// Queues outcomes and wakes the loop.
    pub(crate) fn push(&self, outcomes: impl IntoIterator<Item = Ended>) {
        self.queue.push(outcomes);
        self.wake();
    }

    /// Takes the oldest outcomes, at most `most`. If more are left, the loop is woken again. JavaScript thread only.
    pub(crate) fn take(&self, most: usize) -> VecDeque<Ended> {
        let (outcomes, more) = self.queue.take(most);
        if more {
            self.wake();
        }
        outcomes
    }

    /// Takes all outcomes, because JavaScript can no longer receive them.
    pub(super) fn take_all(&self) -> VecDeque<Ended> {
        self.queue.take(usize::MAX).0
    }

    fn wake(&self) {
        if self.queue.must_wake() && !self.wake.call() {
            // The environment has ended, so no thread will read these.
            drop(self.queue.take(usize::MAX));
        }
    }

    /// Sets whether to keep the process and the callback for outcomes alive. JavaScript thread only.
    pub(crate) fn keep(&self, hearer: &Callback, on: bool) {
        self.wake.keep(hearer, on);
    }

    /// Marks the event loop as unable to receive outcomes.
    pub(crate) fn desert(&self) {
        self.deserted.store(true, Ordering::SeqCst);
    }

    /// Whether outcomes can be received.
    pub(crate) fn alive(&self) -> bool {
        self.wake.alive() && !self.deserted.load(Ordering::SeqCst)
    }
}
