//! What a thread that waits has to see to: the connections that were asked, and the timers.

use std::cell::RefCell;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use smallvec::SmallVec;

use super::way::Way;
use crate::clock::instant::Instant;
use crate::clock::machine;

type Asked = SmallVec<[Arc<dyn Way>; 1]>;

/// This thread's.
#[derive(Default)]
struct Thread {
    /// How many see to what is asked, one within the other.
    waits: u32,
    /// Whether the innermost keeps the time, too.
    keeps_time: bool,
    /// Since the last turn.
    asked: Asked,
    /// Of futures that wait here, or did and will again.
    timers: Vec<Entry>,
}

struct Entry {
    id: u64,
    at: Instant,
    waker: Waker,
}

thread_local! {
    static THREAD: RefCell<Thread> = RefCell::new(Thread::default());
}

/// What it is used for runs no code but its own. `None`: the thread ends.
fn with<T>(act: impl FnOnce(&mut Thread) -> T) -> Option<T> {
    THREAD
        .try_with(|thread| thread.try_borrow_mut().ok().map(|mut thread| act(&mut thread)))
        .ok()?
}

/// This thread waits, or is about to; until it is dropped.
pub(crate) struct Here {
    /// Whether the one around it keeps the time.
    before: bool,
    /// It is this thread that does.
    _thread: PhantomData<*const ()>,
}

impl Here {
    /// From now on connections that are asked are seen to, and the time is kept.
    pub(crate) fn begin() -> Self {
        Self::with_time(true)
    }

    /// From now on connections that are asked are seen to.
    pub(crate) fn asking() -> Self {
        Self::with_time(false)
    }

    fn with_time(keeps: bool) -> Self {
        let before = with(|thread| {
            thread.waits += 1;
            std::mem::replace(&mut thread.keeps_time, keeps)
        });
        Self { before: before.unwrap_or_default(), _thread: PhantomData }
    }

    /// What was asked since the last time.
    pub(crate) fn take_asked() -> Asked {
        with(|thread| std::mem::take(&mut thread.asked)).unwrap_or_default()
    }

    /// When the next timer ends.
    pub(super) fn next_timer() -> Option<Instant> {
        with(|thread| thread.timers.iter().map(|timer| timer.at).min())?
    }

    /// Wakes whose timers have ended.
    pub(super) fn ring_due(now: Instant) {
        let due = with(|thread| {
            let due = thread.timers.extract_if(.., |timer| timer.at <= now);
            due.map(|timer| timer.waker).collect::<Vec<_>>()
        });
        due.into_iter().flatten().for_each(Waker::wake);
    }
}

/// A thread that parks writes nothing and keeps no time, whatever it was about to do: the background thread does both until this
/// is dropped.
pub(crate) struct Parked {
    before: (u32, bool),
    /// It is this thread that parks.
    _thread: PhantomData<*const ()>,
}

impl Parked {
    /// From now on the background thread does what this thread has requested, and what it requests next.
    pub(crate) fn begin() -> Self {
        let taken = with(|thread| {
            let before =
                (std::mem::take(&mut thread.waits), std::mem::take(&mut thread.keeps_time));
            (before, std::mem::take(&mut thread.asked), std::mem::take(&mut thread.timers))
        });
        let (before, asked, timers) = taken.unwrap_or_default();
        asked.iter().for_each(|way| way.delegate());
        // Each is polled once more and goes on as a timer of the background thread.
        timers.into_iter().for_each(|timer| timer.waker.wake());
        Self { before, _thread: PhantomData }
    }
}

impl Drop for Parked {
    fn drop(&mut self) {
        with(|thread| (thread.waits, thread.keeps_time) = self.before);
    }
}

/// What was asked since the last turn goes out in any case, and somebody else reads the answers.
impl Drop for Here {
    fn drop(&mut self) {
        let asked = with(|thread| {
            thread.waits -= 1;
            thread.keeps_time = self.before;
            let last = thread.waits == 0 && !thread.asked.is_empty();
            last.then(|| std::mem::take(&mut thread.asked))
        });
        for way in asked.into_iter().flatten().flatten() {
            way.write();
            way.delegate();
        }
    }
}

/// A connection was asked. True: the thread that asked sees to it.
pub(crate) fn asked<W: Way + 'static>(way: &Arc<W>) -> bool {
    with(|thread| {
        if thread.waits == 0 {
            return false;
        }
        let same = |known: &Arc<dyn Way>| std::ptr::addr_eq(Arc::as_ptr(known), Arc::as_ptr(way));
        if !thread.asked.iter().any(same) {
            thread.asked.push(Arc::clone(way) as Arc<dyn Way>);
        }
        true
    })
    .unwrap_or(false)
}

/// A timer of the thread that waits, up to then; `None`: it does not keep the time.
pub(crate) fn timer(at: Instant) -> Option<Timer> {
    // Of no other timer of the process: one may be polled by another thread than the one before.
    static NEXT: AtomicU64 = AtomicU64::new(0);
    with(|thread| thread.keeps_time).filter(|keeps| *keeps)?;
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    Some(Timer { id, at, kept: false })
}

/// Ends at a time, for as long as its future is polled where a thread waits.
pub(crate) struct Timer {
    id: u64,
    at: Instant,
    /// It was, by some thread.
    kept: bool,
}

/// How a timer ended.
pub(crate) enum Timed {
    /// Its time has come.
    Over,
    /// It is polled elsewhere now: so much is left.
    Elsewhere(Duration),
}

impl Future for Timer {
    type Output = Timed;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Timed> {
        let waker = || cx.waker().clone();
        let known = with(|thread| {
            // It may be polled where nobody keeps the time, on a thread that did.
            let timers = thread.keeps_time.then_some(&mut thread.timers).into_iter().flatten();
            let known = timers.into_iter().find(|timer| timer.id == self.id);
            known.map(|known| std::mem::replace(&mut known.waker, waker()))
        });
        // Who keeps it rings it once its time has come: until then nobody has to look at the clock.
        if known.flatten().is_some() {
            return Poll::Pending;
        }
        let (first, at) = (!std::mem::replace(&mut self.kept, true), self.at);
        let left = || at.since(machine::now());
        if !first && left().is_zero() {
            return Poll::Ready(Timed::Over);
        }
        let entry = Entry { id: self.id, at, waker: waker() };
        let refused = with(|thread| {
            if !thread.keeps_time {
                return Some(entry);
            }
            thread.timers.push(entry);
            None
        });
        // Outside: the waker in it may be anything.
        if matches!(refused, Some(None)) {
            Poll::Pending
        } else {
            Poll::Ready(Timed::Elsewhere(left()))
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        let gone = with(|thread| {
            let at = thread.timers.iter().position(|timer| timer.id == self.id)?;
            Some(thread.timers.swap_remove(at))
        });
        // Outside: what it wakes may be anything.
        drop(gone);
    }
}
