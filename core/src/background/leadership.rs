//! Who does the work: the background thread, or a thread that waits for an answer anyway.
//!
//! A round trip by way of the background thread costs four switches between threads. So whoever waits takes its place
//! (tokio hands a runtime from one thread that blocks on it to the next), and it rests for a while, as most who wait
//! come again at once. No work is left for long: it looks every [`MOMENT`] whether somebody still does it, and comes
//! at once where it is called.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tokio::task::yield_now;

/// So long nobody may be at work: what is pushed, and what is due, may be late by that.
const MOMENT: Duration = Duration::from_millis(2);

/// The background thread does the work.
const LEADS: u8 = 0;
/// It looks every moment whether somebody does.
const RESTS: u8 = 1;
/// Somebody has done it for a whole moment, and wakes it in the end.
const SLEEPS: u8 = 2;

/// Who leads.
#[derive(Default)]
pub(super) struct Leadership {
    /// Threads that wait: one of them works, unless the background thread is still at it.
    waiting: AtomicUsize,
    /// Counts those that left, so that the background thread sees whether there were any meanwhile.
    turns: AtomicU32,
    /// What the background thread does.
    state: AtomicU8,
    /// Has the background thread make room.
    leave: Notify,
    /// It was called. Held for a moment only.
    called: Mutex<bool>,
    /// Wakes it from its rest.
    bell: Condvar,
}

/// A thread that waits, until it is dropped.
pub(super) struct Waiting<'a>(&'a Leadership);

impl Leadership {
    /// The background thread's life.
    pub(super) fn stand_by(&self, runtime: &Runtime) {
        loop {
            self.state.store(LEADS, Ordering::SeqCst);
            // Looked at after it was said: who comes before this is seen here, who comes later sees what was said.
            if self.waiting.load(Ordering::SeqCst) == 0 {
                runtime.block_on(async {
                    // Whoever comes and goes all the time: what is due is done each time.
                    yield_now().await;
                    self.leave.notified().await;
                });
            }
            self.rest();
        }
    }

    /// Until nobody works any more, or it is called.
    fn rest(&self) {
        self.state.store(RESTS, Ordering::SeqCst);
        let mut called = self.called();
        loop {
            let turns = self.turns.load(Ordering::Relaxed);
            let slept = self.bell.wait_timeout_while(called, MOMENT, |called| !*called);
            called = slept.unwrap_or_else(PoisonError::into_inner).0;
            if std::mem::take(&mut *called) {
                return;
            }
            if self.turns.load(Ordering::Relaxed) != turns {
                continue;
            }
            if self.waiting.load(Ordering::SeqCst) == 0 {
                return;
            }
            // One who waits for long: it need not be looked at until it leaves.
            self.state.store(SLEEPS, Ordering::SeqCst);
            let alone = |called: &mut bool| !*called && self.waiting.load(Ordering::SeqCst) > 0;
            let slept = self.bell.wait_while(called, alone);
            called = slept.unwrap_or_else(PoisonError::into_inner);
            self.state.store(RESTS, Ordering::SeqCst);
        }
    }

    /// This thread is about to wait, and to work meanwhile.
    pub(super) fn wait(&self) -> Waiting<'_> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        if self.state.load(Ordering::SeqCst) == LEADS {
            // Twice it is told once, and too late it only has a look.
            self.leave.notify_one();
        }
        Waiting(self)
    }

    /// Has the background thread come, if nobody works.
    pub(super) fn call(&self) {
        if self.state.load(Ordering::SeqCst) != LEADS && self.waiting.load(Ordering::SeqCst) == 0 {
            *self.called() = true;
            self.bell.notify_one();
        }
    }

    /// Whether it was called.
    fn called(&self) -> MutexGuard<'_, bool> {
        self.called.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let Self(leadership) = self;
        leadership.turns.fetch_add(1, Ordering::Relaxed);
        let last = leadership.waiting.fetch_sub(1, Ordering::SeqCst) == 1;
        if last && leadership.state.load(Ordering::SeqCst) == SLEEPS {
            // Under its lock: between its look and its sleep it would not hear.
            let _held = leadership.called();
            leadership.bell.notify_one();
        }
    }
}
