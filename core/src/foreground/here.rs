//! What a thread that waits has to see to: the connections that were asked, and the timers.

use std::cell::RefCell;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use smallvec::SmallVec;

use super::way::Way;

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
    /// Never given twice.
    next: u64,
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
    pub(super) fn ring_due() {
        let due = with(|thread| {
            if thread.timers.is_empty() {
                return Vec::new();
            }
            let now = Instant::now();
            let due = thread.timers.extract_if(.., |timer| timer.at <= now);
            due.map(|timer| timer.waker).collect()
        });
        due.into_iter().flatten().for_each(Waker::wake);
    }
}

/// What was asked since the last turn goes out in any case, and somebody else reads the answers.
impl Drop for Here {
    fn drop(&mut self) {
        let asked = with(|thread| {
            thread.waits -= 1;
            thread.keeps_time = self.before;
            if thread.waits == 0 { std::mem::take(&mut thread.asked) } else { Asked::new() }
        });
        for way in asked.into_iter().flatten() {
            way.turn(false);
            way.help();
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

/// A timer of the thread that waits; `None`: it does not keep the time.
pub(crate) fn timer(time: Duration) -> Option<Timer> {
    let id = with(|thread| {
        thread.next += 1;
        thread.keeps_time.then_some(thread.next)
    })??;
    Some(Timer { id, at: Instant::now() + time })
}

/// Ends at a time, for as long as its future is polled where a thread waits.
pub(crate) struct Timer {
    id: u64,
    at: Instant,
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

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Timed> {
        let left = self.at.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Poll::Ready(Timed::Over);
        }
        let kept = with(|thread| {
            if !thread.keeps_time {
                return false;
            }
            let entry = Entry { id: self.id, at: self.at, waker: cx.waker().clone() };
            match thread.timers.iter_mut().find(|timer| timer.id == self.id) {
                Some(known) => *known = entry,
                None => thread.timers.push(entry),
            }
            true
        });
        if kept == Some(true) { Poll::Pending } else { Poll::Ready(Timed::Elsewhere(left)) }
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
