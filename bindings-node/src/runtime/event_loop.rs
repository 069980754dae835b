//! The event loop of one JavaScript thread. Other threads queue outcomes for it and wake it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redlock::ffi::{Completions, Level, Record, Topic};

use super::wake::{Callback, Wake};
use crate::outcome::{Ended, Outcome};

/// What the event loop has not read yet. Losses are outcomes, which never wait for warnings and events.
pub(crate) type Queue = Arc<Queues>;

/// The outcomes, and the warnings and events.
#[derive(Default)]
pub(crate) struct Queues {
    outcomes: Completions<Ended>,
    records: Mutex<Records>,
    /// Whether a wake-up for records is under way.
    is_waking: AtomicBool,
}

/// Warnings and events. They are delivered one at a time, while no outcome waits. They are dropped if there are
/// too many.
#[derive(Default)]
struct Records {
    queued: VecDeque<Outcome>,
    dropped_events: usize,
    dropped_warnings: usize,
}

/// Maximum number of warnings and events in the queue. Events may use half of it.
const MAX_RECORDS: usize = 10_000;

impl Queues {
    fn records(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes everything.
    pub(super) fn take_all(&self) -> VecDeque<Ended> {
        let mut all = self.outcomes.take(usize::MAX).0;
        all.extend(std::mem::take(&mut self.records().queued).into_iter().map(ended));
        all
    }

    /// Whether the caller must wake the loop.
    fn must_wake(&self) -> bool {
        let for_records =
            || !self.records().queued.is_empty() && !self.is_waking.swap(true, Ordering::SeqCst);
        self.outcomes.must_wake() || for_records()
    }
}

impl Records {
    fn push(&mut self, record: Outcome, level: Level) {
        let (room, dropped) = match record {
            Outcome::Event(..) if level == Level::Debug => {
                (MAX_RECORDS / 2, &mut self.dropped_events)
            }
            Outcome::Event(..) => (MAX_RECORDS, &mut self.dropped_events),
            _ => (MAX_RECORDS, &mut self.dropped_warnings),
        };
        if self.queued.len() < room {
            self.queued.push_back(record);
        } else {
            *dropped += 1;
        }
    }

    /// Takes the oldest one. An event has the number of those that were dropped before it.
    fn pop(&mut self) -> Option<Outcome> {
        match self.queued.pop_front()? {
            Outcome::Event(event, _) => {
                Some(Outcome::Event(event, std::mem::take(&mut self.dropped_events)))
            }
            warning => {
                let dropped = std::mem::take(&mut self.dropped_warnings);
                if dropped > 0 {
                    let text = format!("{dropped} warnings were dropped: this thread was too slow");
                    self.queued.push_front(Outcome::Warning(text));
                }
                Some(warning)
            }
        }
    }
}

/// The bit of the events of a topic and a level. JavaScript's `telemetry/events.ts` makes the same ones.
fn bit(topic: Topic, level: Level) -> u32 {
    1 << (4 * topic as u32 + level as u32 - 1)
}

/// An outcome that is not that of a call.
fn ended(outcome: Outcome) -> Ended {
    Ended { slot: 0, number: 0, outcome }
}

/// An event loop. Any thread can queue outcomes for it.
pub(crate) struct EventLoop {
    queue: Queue,
    wake: Wake,
    /// The callback for outcomes is gone.
    ended: AtomicBool,
    /// The events that the program requested, one bit for each topic and level.
    wanted_events: AtomicU32,
}

impl EventLoop {
    /// `wake` runs the function that reads the queue.
    pub(crate) fn new(queue: Queue, wake: Wake) -> Self {
        let (ended, wanted_events) = (AtomicBool::new(false), AtomicU32::new(0));
        Self { queue, wake, ended, wanted_events }
    }

    /// Sets the events that the event loop receives, one bit for each topic and level.
    pub(super) fn want_events(&self, bits: u32) {
        self.wanted_events.store(bits, Ordering::Relaxed);
    }

    /// Whether the event loop receives the events of this topic and level.
    pub(super) fn wants_events(&self, topic: Topic, level: Level) -> bool {
        self.wanted_events.load(Ordering::Relaxed) & bit(topic, level) != 0
    }

    /// Queues an event and wakes the loop.
    pub(super) fn push_event(&self, event: &Record) {
        self.push_record(Outcome::Event(Box::new(event.clone()), 0), event.level);
    }

    /// Queues a warning and wakes the loop.
    pub(super) fn push_warning(&self, text: String) {
        self.push_record(Outcome::Warning(text), Level::Warn);
    }

    fn push_record(&self, record: Outcome, level: Level) {
        self.queue.records().push(record, level);
        self.wake();
    }

    /// Queues outcomes without waking the loop, because the caller reads them. JavaScript thread only.
    pub(super) fn add(&self, outcomes: impl IntoIterator<Item = Ended>) {
        self.queue.outcomes.push(outcomes);
    }

    /// Queues outcomes and wakes the loop.
    pub(crate) fn push(&self, outcomes: impl IntoIterator<Item = Ended>) {
        self.queue.outcomes.push(outcomes);
        self.wake();
    }

    /// Takes the oldest outcomes, at most `most`. JavaScript thread only. It then calls [`EventLoop::wake_for_rest`].
    pub(super) fn take(&self, most: usize) -> VecDeque<Ended> {
        self.queue.outcomes.take(most).0
    }

    /// Takes the oldest warning or event. JavaScript thread only.
    pub(super) fn take_record(&self) -> Option<Ended> {
        self.queue.records().pop().map(ended)
    }

    /// Takes all events and drops the warnings, because Node.js prints no more of them. JavaScript thread only.
    pub(super) fn take_last_events(&self) -> Vec<Outcome> {
        let is_event = |outcome: &Outcome| matches!(outcome, Outcome::Event(..));
        let mut records = self.queue.records();
        std::iter::from_fn(|| records.pop()).filter(is_event).collect()
    }

    /// Wakes the loop again if anything is left. JavaScript thread only.
    pub(super) fn wake_for_rest(&self) {
        self.queue.is_waking.store(false, Ordering::SeqCst);
        self.wake();
    }

    /// Takes everything, which no caller can receive any more.
    pub(super) fn take_all(&self) -> VecDeque<Ended> {
        self.queue.take_all()
    }

    fn wake(&self) {
        if self.queue.must_wake() && !self.wake.call() {
            // The environment has ended, so no thread will read these.
            drop(self.queue.take_all());
        }
    }

    /// Sets whether to keep the process and the callback for outcomes alive. JavaScript thread only.
    pub(crate) fn keep_alive(&self, settle_callback: &Callback, on: bool) {
        self.wake.keep_alive(settle_callback, on);
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
