//! The connections and timers that a waiting thread must serve.

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
use crate::clock::machine::{self, Instant};

type Asked = SmallVec<[Arc<dyn Way>; 1]>;

/// The state of one thread.
#[derive(Default)]
struct Thread {
    /// The number of nested waits.
    waits: u32,
    /// Whether the innermost one also keeps timers.
    keeps_time: bool,
    /// The connections to which commands were submitted since the last write.
    asked: Asked,
    /// The timers of futures that were polled here.
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

/// Uses the thread's state. `act` must not run foreign code. Returns `None` if the thread is ending.
fn with<T>(act: impl FnOnce(&mut Thread) -> T) -> Option<T> {
    THREAD
        .try_with(|thread| thread.try_borrow_mut().ok().map(|mut thread| act(&mut thread)))
        .ok()?
}

/// Declares, until it is dropped, that this thread waits or is about to wait.
pub(crate) struct Here {
    /// Whether the wait around it keeps timers.
    before: bool,
    /// It belongs to this thread.
    _thread: PhantomData<*const ()>,
}

impl Here {
    /// Begins a wait that writes the commands and keeps the timers.
    pub(crate) fn begin() -> Self {
        Self::with_time(true)
    }

    /// Begins a wait that only writes the commands.
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

    /// Takes the connections to which commands were submitted since the last call.
    pub(crate) fn take_asked() -> Asked {
        with(|thread| std::mem::take(&mut thread.asked)).unwrap_or_default()
    }

    /// Returns the time of the next timer.
    pub(super) fn next_timer() -> Option<Instant> {
        with(|thread| thread.timers.iter().map(|timer| timer.at).min())?
    }

    /// Wakes the futures whose timers have ended.
    pub(super) fn ring_due(now: Instant) {
        let due = with(|thread| {
            let due = thread.timers.extract_if(.., |timer| timer.at <= now);
            due.map(|timer| timer.waker).collect::<Vec<_>>()
        });
        due.into_iter().flatten().for_each(Waker::wake);
    }
}

/// Declares, until it is dropped, that this thread is parked. The background thread writes its commands and keeps its
/// timers.
pub(crate) struct Parked {
    before: (u32, bool),
    /// It belongs to this thread.
    _thread: PhantomData<*const ()>,
}

impl Parked {
    /// Passes the thread's commands and timers to the background thread, now and until the end.
    pub(crate) fn begin() -> Self {
        let taken = with(|thread| {
            let before =
                (std::mem::take(&mut thread.waits), std::mem::take(&mut thread.keeps_time));
            (before, std::mem::take(&mut thread.asked), std::mem::take(&mut thread.timers))
        });
        let (before, asked, timers) = taken.unwrap_or_default();
        asked.iter().for_each(|way| way.delegate());
        // Each future is polled again, and continues with a timer of the background thread.
        timers.into_iter().for_each(|timer| timer.waker.wake());
        Self { before, _thread: PhantomData }
    }
}

impl Drop for Parked {
    fn drop(&mut self) {
        with(|thread| (thread.waits, thread.keeps_time) = self.before);
    }
}

/// The last commands are always written. The background thread reads the replies.
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

/// Records that a command was submitted to a connection. Returns true if this thread writes it.
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

/// Creates a timer of the waiting thread. Returns `None` if this thread keeps none.
pub(crate) fn timer(at: Instant) -> Option<Timer> {
    // Unique in the process, because different threads may poll the timer.
    static NEXT: AtomicU64 = AtomicU64::new(0);
    with(|thread| thread.keeps_time).filter(|keeps| *keeps)?;
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
        let known = with(|thread| {
            // The thread may have kept it in an outer wait.
            let timers = thread.keeps_time.then_some(&mut thread.timers).into_iter().flatten();
            let known = timers.into_iter().find(|timer| timer.id == self.id);
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
        let entry = Entry { id: self.id, at, waker: waker() };
        let refused = with(|thread| {
            if !thread.keeps_time {
                return Some(entry);
            }
            thread.timers.push(entry);
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
        let gone = with(|thread| {
            let at = thread.timers.iter().position(|timer| timer.id == self.id)?;
            Some(thread.timers.swap_remove(at))
        });
        // Dropped outside, because a waker may run any code.
        drop(gone);
    }
}
