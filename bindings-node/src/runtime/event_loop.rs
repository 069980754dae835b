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
    ended: AtomicBool,
    /// The topics whose events the program requested, one bit for each.
    event_topics: AtomicU32,
    /// Number of events in the queue.
    queued_events: AtomicUsize,
    /// Number of events that were dropped since the last one was delivered.
    dropped: AtomicUsize,
}

/// Maximum number of events in the queue.
const MAX_QUEUED_EVENTS: usize = 10_000;

impl EventLoop {
    /// `wake` runs the function that reads the queue.
    pub(crate) fn new(queue: Queue, wake: Wake) -> Self {
        let (ended, event_topics) = (AtomicBool::new(false), AtomicU32::new(0));
        let (queued_events, dropped) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { queue, wake, ended, event_topics, queued_events, dropped }
    }

    /// Sets the topics whose events the event loop receives.
    pub(super) fn want_events(&self, topics: u32) {
        self.event_topics.store(topics, Ordering::Relaxed);
    }

    /// Whether the event loop receives the events of this topic.
    pub(super) fn wants_events(&self, topic: Topic) -> bool {
        self.event_topics.load(Ordering::Relaxed) & (1 << topic as u32) != 0
    }

    /// Queues an event and wakes the loop. Drops the event if the queue is full.
    pub(super) fn push_event(&self, event: &Record) {
        if self.queued_events.fetch_add(1, Ordering::Relaxed) < MAX_QUEUED_EVENTS {
            let outcome = Outcome::Event(Box::new(event.clone()), 0);
            self.push([Ended { slot: 0, number: 0, outcome }]);
        } else {
            self.queued_events.fetch_sub(1, Ordering::Relaxed);
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Removes an event from the count. Returns how many were dropped since the last one.
    pub(super) fn event_delivered(&self) -> usize {
        self.queued_events.fetch_sub(1, Ordering::Relaxed);
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

    fn wake(&self) {
        if self.queue.must_wake() && !self.wake.call() {
            // The environment has ended, so no thread will read these.
            drop(self.queue.take(usize::MAX));
        }
    }

    /// Sets whether to keep the process and the callback for outcomes alive. JavaScript thread only.
    pub(crate) fn keep(&self, settle_callback: &Callback, on: bool) {
        self.wake.keep(settle_callback, on);
    }

    /// Marks the event loop as unable to receive outcomes.
    pub(crate) fn mark_ended(&self) {
        self.ended.store(true, Ordering::SeqCst);
    }

    /// Whether outcomes can be received.
    pub(crate) fn alive(&self) -> bool {
        self.wake.alive() && !self.ended.load(Ordering::SeqCst)
    }
}
