//! Every hazard between Rust's threads and Python.
//!
//! - **The GIL** is never held while waiting, and core's background thread never takes it: what that thread has to say
//!   goes into a queue, as plain data, and a Python thread or an event loop picks it up.
//! - **Panics** of ours are exceptions (`guarded`), on whichever thread.
//! - **Signals**: a waiting thread looks for them every 50 ms, so Ctrl-C raises; the dropped future cleans up after itself.
//! - **Event loops** (`mailbox`): one queue per loop, one wake-up per batch.
//! - **Logs and callbacks outside a loop** (`dispatch`): one native thread, started at first use.
//! - **gevent and eventlet** (`greenlets`): whoever waits lets other greenlets run.
//! - **Exits** (`farewell`): clean-ups under way are waited for, for a moment.
//! - **Forks**: whatever belongs to the parent (`redlock::ffi::fork_generation`) is left alone and made anew.
//!
//! The statics of this crate are locked with the GIL held and never across a call into Python, so a fork, which holds the
//! GIL, finds them free.

use std::future::Future;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread, ThreadId};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

mod crew;
pub(crate) mod dispatch;
pub(crate) mod farewell;
mod greenlets;
pub(crate) mod log;
pub(crate) mod mailbox;
mod queue;
pub(crate) mod watch;

/// How long a waiting thread may be deaf to Ctrl-C.
const SLICE: Duration = Duration::from_millis(50);
/// How long a greenlet keeps all others waiting: an answer from nearby comes sooner.
const SHORT: Duration = Duration::from_millis(1);

/// Locks; a panic elsewhere has not made our data wrong.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A panic as an exception: it must not end a thread that others need, nor take the rest of a batch along.
///
/// One comes out of a call into Python too, if something native panicked there.
pub(crate) fn guarded<T>(work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(crate::error::internal()))
}

struct Parker {
    thread: Thread,
    woken: AtomicBool,
}

impl Wake for Parker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

impl Parker {
    /// Polls as often as it is woken, for one slice.
    fn poll<F: Future>(
        &self,
        waker: &Waker,
        mut future: Pin<&mut F>,
        slice: Duration,
    ) -> Poll<F::Output> {
        let end = Instant::now() + slice;
        loop {
            while !self.woken.swap(false, Ordering::Acquire) {
                let left = end.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Poll::Pending;
                }
                thread::park_timeout(left);
            }
            if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(waker)) {
                return Poll::Ready(value);
            }
        }
    }
}

/// Drives a future on this thread, without the GIL, until it is done or a signal handler raises.
///
/// `when_slow` is called once, if the first slice of time was not enough.
pub(crate) fn wait<F>(
    py: Python<'_>,
    future: F,
    when_slow: impl FnOnce(Python<'_>) -> PyResult<()>,
) -> PyResult<F::Output>
where
    F: Future + Send,
    F::Output: Send,
{
    match greenlets::in_use(py)? {
        None => drive(py, pin!(future), when_slow, SLICE, || Ok(())),
        Some(mut greenlets) => {
            drive(py, Box::pin(future).as_mut(), when_slow, SHORT, || greenlets.pause())
        }
    }
}

fn drive<F>(
    py: Python<'_>,
    mut future: Pin<&mut F>,
    when_slow: impl FnOnce(Python<'_>) -> PyResult<()>,
    slice: Duration,
    mut pause: impl FnMut() -> PyResult<()>,
) -> PyResult<F::Output>
where
    F: Future + Send,
    F::Output: Send,
{
    let parker = Arc::new(Parker { thread: thread::current(), woken: AtomicBool::new(true) });
    let waker = Waker::from(Arc::clone(&parker));
    let mut when_slow = Some(when_slow);
    loop {
        let polled = guarded(|| Ok(py.detach(|| parker.poll(&waker, future.as_mut(), slice))))?;
        // Also when it is done: what a handler raises now would otherwise be raised after the lease was handed out.
        py.check_signals()?;
        match (polled, when_slow.take()) {
            (Poll::Ready(value), _) => return Ok(value),
            (Poll::Pending, Some(slow)) => slow(py)?,
            (Poll::Pending, None) => {}
        }
        pause()?;
    }
}

/// Who runs the code that calls us: leases are told apart by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Owner {
    Thread(ThreadId),
    /// The task's address.
    Task(usize),
    /// The greenlet's address.
    Greenlet(usize),
}

impl Owner {
    pub(crate) fn current(py: Python<'_>) -> PyResult<Self> {
        static CURRENT_TASK: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        if let Some(event_loop) = running_loop(py)? {
            let task = CURRENT_TASK.import(py, "asyncio", "current_task")?.call1((event_loop,))?;
            if !task.is_none() {
                return Ok(Self::Task(task.as_ptr() as usize));
            }
        }
        match greenlets::in_use(py)? {
            Some(greenlets) => greenlets.current().map(Self::Greenlet),
            None => Ok(Self::Thread(thread::current().id())),
        }
    }

    /// As core compares it.
    pub(crate) fn plain(self) -> redlock::ffi::Owner {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        redlock::ffi::Owner(self.word(), hasher.finish())
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Thread(_) => "this thread",
            Self::Task(_) => "this task",
            Self::Greenlet(_) => "this greenlet",
        }
    }
}

/// The event loop that runs in this thread, without importing asyncio for the answer.
pub(crate) fn running_loop(py: Python<'_>) -> PyResult<Option<Bound<'_, PyAny>>> {
    static RUNNING: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    static MODULES: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    if RUNNING.get(py).is_none() {
        let modules = MODULES.import(py, "sys", "modules")?;
        if !modules.contains("asyncio.events")? {
            return Ok(None);
        }
    }
    let found = RUNNING.import(py, "asyncio.events", "_get_running_loop")?.call0()?;
    Ok((!found.is_none()).then_some(found))
}
