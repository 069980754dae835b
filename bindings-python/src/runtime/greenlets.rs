//! Supports gevent and eventlet, whose greenlets share one thread. A waiting greenlet must not block that thread.
//!
//! In a process that either library has patched, a waiter first blocks the thread briefly. Then it watches a pipe by
//! the library's `select`, which lets other greenlets run, and its future writes to the pipe. A waiter without a pipe
//! calls the library's `sleep` until its future has been woken. Data of a waiter must be on the heap, because the
//! stacks of sleeping greenlets are moved.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::pipe::{self, WakePipe, Woken};
use crate::once_cell::{Once, intern};

/// The minimum and maximum sleep of a waiter without a pipe. It grows with each sleep, and a wake-up resets it.
const SLEEPS: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(20));
/// How long a waiter watches its pipe before it checks for exceptions that another thread raises in it.
const EXCEPTION_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The maximum number of waiters with a pipe, so that many waiters do not use up the descriptors of the process.
const MAX_PIPES: usize = 64;
/// `select` takes only smaller descriptors.
const MAX_DESCRIPTOR: i32 = 1024;

/// The number of waiters with a pipe.
static PIPES: AtomicUsize = AtomicUsize::new(0);

/// The library whose greenlets run in this process.
pub(crate) struct Greenlets<'py> {
    library: Bound<'py, PyAny>,
    /// The module with its `select`.
    selector: &'static str,
    current: Bound<'py, PyAny>,
}

/// Returns `None` if neither library has patched the process. Costs two dict lookups.
pub(crate) fn in_use(py: Python<'_>) -> PyResult<Option<Greenlets<'_>>> {
    static MODULES: Once<Py<PyAny>> = Once::new();
    let modules = MODULES.import(py, "sys", "modules")?.cast::<PyDict>()?;
    let libraries = [
        (
            intern!(py, "gevent.monkey"),
            intern!(py, "saved"),
            intern!(py, "gevent"),
            "gevent.select",
        ),
        (
            intern!(py, "eventlet.patcher"),
            intern!(py, "already_patched"),
            intern!(py, "eventlet"),
            "eventlet.green.select",
        ),
    ];
    for (patcher, patched, library, selector) in libraries {
        let Some(patcher) = modules.get_item(patcher)? else { continue };
        if !patcher.getattr(patched)?.is_truthy()? {
            continue;
        }
        let library = py.import(library)?.into_any();
        let current = py.import(intern!(py, "greenlet"))?.getattr(intern!(py, "getcurrent"))?;
        return Ok(Some(Greenlets { library, selector, current }));
    }
    Ok(None)
}

impl<'py> Greenlets<'py> {
    /// Returns the current greenlet.
    pub(crate) fn current(&self) -> PyResult<Bound<'py, PyAny>> {
        self.current.call0()
    }

    /// Creates a waiter of the current greenlet.
    pub(crate) fn waiter(self) -> PyResult<Waiter<'py>> {
        let watched = Watched::open();
        let (woken, wake) =
            watched.map_or((None, None), |(watched, wake)| (Some(watched), Some(wake)));
        let py = self.library.py();
        let call = match &woken {
            Some(_) => py.import(self.selector)?.getattr(intern!(py, "select"))?,
            None => self.library.getattr(intern!(py, "sleep"))?,
        };
        Ok(Waiter {
            woken,
            call,
            wakes: Arc::new(Wakes { is_set: AtomicBool::new(false), wake }),
            sleep: SLEEPS.0,
        })
    }
}

/// Polls a future on a greenlet.
pub(crate) struct Waiter<'py> {
    woken: Option<Watched>,
    /// `select`, or `sleep` without a pipe.
    call: Bound<'py, PyAny>,
    wakes: Arc<Wakes>,
    sleep: Duration,
}

impl Waiter<'_> {
    /// Returns what its future wakes. Another thread may use it.
    pub(crate) fn wakes(&self) -> &Arc<Wakes> {
        &self.wakes
    }

    /// Lets other greenlets run until the future is woken, or for a limited time. Raises the exception that ends this
    /// greenlet.
    pub(crate) fn pause(&mut self) -> PyResult<()> {
        let Some(Watched { woken, .. }) = &self.woken else { return self.sleep() };
        let nothing: [i32; 0] = [];
        let time = EXCEPTION_CHECK_INTERVAL.as_secs_f64();
        self.call.call1(([woken.descriptor()], nothing, nothing, time))?;
        woken.drain();
        Ok(())
    }

    fn sleep(&mut self) -> PyResult<()> {
        self.call.call1((self.sleep.as_secs_f64(),))?;
        let is_woken = self.is_woken();
        self.sleep = if is_woken { SLEEPS.0 } else { (self.sleep * 2).min(SLEEPS.1) };
        Ok(())
    }

    /// Whether the future was woken since the last poll.
    pub(crate) fn is_woken(&self) -> bool {
        self.wakes.is_set.load(Ordering::SeqCst)
    }
}

/// Wakes a waiter, from any thread and without the GIL.
pub(crate) struct Wakes {
    is_set: AtomicBool,
    wake: Option<WakePipe>,
}

impl Wakes {
    /// Polls the future without blocking. The background thread does its I/O.
    pub(crate) fn poll<F: Future>(self: &Arc<Self>, future: Pin<&mut F>) -> Poll<F::Output> {
        self.is_set.store(false, Ordering::SeqCst);
        future.poll(&mut Context::from_waker(&Waker::from(Arc::clone(self))))
    }
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_set.swap(true, Ordering::SeqCst) {
            self.wake.iter().for_each(WakePipe::wake);
        }
    }
}

/// The receiving end of a waiter's pipe.
struct Watched {
    woken: Woken,
    _count: Count,
}

impl Watched {
    /// Returns `None` if there are enough pipes, or if the process has no descriptor left.
    fn open() -> Option<(Self, WakePipe)> {
        let count = Count::take()?;
        let (woken, wake) = pipe::pair().ok()??;
        (woken.descriptor() < MAX_DESCRIPTOR).then_some((Self { woken, _count: count }, wake))
    }
}

/// One of [`PIPES`].
struct Count(());

impl Count {
    fn take() -> Option<Self> {
        let more = |count: usize| (count < MAX_PIPES).then(|| count + 1);
        PIPES.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok().map(|_| Self(()))
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        PIPES.fetch_sub(1, Ordering::Relaxed);
    }
}
