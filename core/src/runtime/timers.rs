//! Timers of a waiting thread, which must not wake another thread.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::runtime::machine::{self, Instant};
use crate::runtime::with_local;

/// The timers of one thread.
struct Timers {
    /// Whether the thread keeps timers now.
    kept: bool,
    entries: Vec<TimerEntry>,
}

struct TimerEntry {
    id: u64,
    at: Instant,
    waker: Waker,
}

thread_local! {
    static TIMERS: RefCell<Timers> = const { RefCell::new(Timers { kept: false, entries: Vec::new() }) };
}

/// Sets whether this thread keeps timers. Returns whether it did before.
pub(crate) fn set_kept(kept: bool) -> bool {
    with_local(&TIMERS, |timers| std::mem::replace(&mut timers.kept, kept)).unwrap_or_default()
}

/// Returns the time of the next timer.
pub(crate) fn next() -> Option<Instant> {
    with_local(&TIMERS, |timers| timers.entries.iter().map(|timer| timer.at).min())?
}

/// Wakes the futures whose timers have ended.
pub(crate) fn wake_due(now: Instant) {
    let woken = with_local(&TIMERS, |timers| {
        let woken = timers.entries.extract_if(.., |timer| timer.at <= now);
        woken.map(|timer| timer.waker).collect::<Vec<_>>()
    });
    woken.into_iter().flatten().for_each(Waker::wake);
}

/// Creates a timer of the waiting thread. Returns `None` if this thread keeps none.
pub(crate) fn timer(at: Instant) -> Option<Timer> {
    // Unique in the process, because different threads may poll the timer.
    static NEXT: AtomicU64 = AtomicU64::new(0);
    with_local(&TIMERS, |timers| timers.kept).filter(|kept| *kept)?;
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    Some(Timer { id, at, kept: false })
}

/// Completes at a time, as long as waiting threads poll it.
pub(crate) struct Timer {
    id: u64,
    at: Instant,
    /// Whether some thread has kept it.
    kept: bool,
}

/// How a timer ended.
pub(crate) enum Timed {
    /// Its time is over.
    Over,
    /// It is polled on a thread that keeps no timers. This time is left.
    Elsewhere(Duration),
}

impl Future for Timer {
    type Output = Timed;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Timed> {
        let waker = || cx.waker().clone();
        let known = with_local(&TIMERS, |timers| {
            // The thread may have kept it in an outer wait.
            let entries = timers.kept.then_some(&mut timers.entries).into_iter().flatten();
            let known = entries.into_iter().find(|timer| timer.id == self.id);
            known.map(|known| std::mem::replace(&mut known.waker, waker()))
        });
        // The thread wakes it when its time is over, so the clock need not be read.
        if known.flatten().is_some() {
            return Poll::Pending;
        }
        let (first, at) = (!std::mem::replace(&mut self.kept, true), self.at);
        let left = || at.since(machine::now());
        if !first && left().is_zero() {
            return Poll::Ready(Timed::Over);
        }
        let entry = TimerEntry { id: self.id, at, waker: waker() };
        let refused = with_local(&TIMERS, |timers| {
            if !timers.kept {
                return Some(entry);
            }
            timers.entries.push(entry);
            None
        });
        // Dropped outside, because a waker may run any code.
        if matches!(refused, Some(None)) {
            Poll::Pending
        } else {
            Poll::Ready(Timed::Elsewhere(left()))
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        let gone = with_local(&TIMERS, |timers| {
            let at = timers.entries.iter().position(|timer| timer.id == self.id)?;
            Some(timers.entries.swap_remove(at))
        });
        // Dropped outside, because a waker may run any code.
        drop(gone);
    }
}
