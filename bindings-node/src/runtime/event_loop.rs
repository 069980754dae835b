//! One JavaScript thread's event loop, as other threads see it: what is done is left there, and it is woken to look.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use redlock::ffi::{Completions, Record, Topic};

use super::wake::{Callback, Wake};
use crate::outcome::{Ended, Outcome};

/// What the event loop has not seen yet.
pub(crate) type Queue = Arc<Completions<Ended>>;

/// An event loop; any thread may leave outcomes for it.
pub(crate) struct EventLoop {
    queue: Queue,
    wake: Wake,
    /// Nobody is there any more to hear of outcomes.
    deserted: AtomicBool,
    /// Of which topics its program hears each step: a bit for each.
    steps: AtomicU32,
    /// Steps that the loop has not seen yet.
    unseen: AtomicUsize,
    /// Steps that found no room since it was last told.
    dropped: AtomicUsize,
}

/// More steps than this wait for nobody.
const ROOM: usize = 10_000;

impl EventLoop {
    /// `wake` runs what looks into the queue.
    pub(crate) fn new(queue: Queue, wake: Wake) -> Self {
        let (deserted, steps) = (AtomicBool::new(false), AtomicU32::new(0));
        let (unseen, dropped) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { queue, wake, deserted, steps, unseen, dropped }
    }

    /// Has it told of each step of these topics from now on.
    pub(super) fn want_steps(&self, topics: u32) {
        self.steps.store(topics, Ordering::Relaxed);
    }

    /// Whether it is told of the steps of this topic.
    pub(super) fn wants_steps(&self, topic: Topic) -> bool {
        self.steps.load(Ordering::Relaxed) & (1 << topic as u32) != 0
    }

    /// Leaves a step to be seen soon, unless the loop is too far behind.
    pub(super) fn push_step(&self, step: &Record) {
        if self.unseen.fetch_add(1, Ordering::Relaxed) < ROOM {
            let outcome = Outcome::Step(Box::new(step.clone()), 0);
            self.push([Ended { slot: 0, number: 0, outcome }]);
        } else {
            self.unseen.fetch_sub(1, Ordering::Relaxed);
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The loop sees a step; how many were dropped since the last one.
    pub(super) fn saw_step(&self) -> usize {
        self.unseen.fetch_sub(1, Ordering::Relaxed);
        self.dropped.swap(0, Ordering::Relaxed)
    }

    /// Leaves these for whoever looks next, and wakes nobody: that is the caller. On the JavaScript thread alone.
    pub(super) fn add(&self, outcomes: impl IntoIterator<Item = Ended>) {
        self.queue.push(outcomes);
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

    /// All that nobody hears of here.
    pub(super) fn take_all(&self) -> VecDeque<Ended> {
        self.queue.take(usize::MAX).0
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
