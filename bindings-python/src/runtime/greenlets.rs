//! Supports gevent and eventlet, whose greenlets share one thread. A waiting greenlet must not block that thread.
//!
//! In a process that either library has patched, a waiter first blocks the thread briefly. Then it calls the library's
//! `sleep`, which lets other greenlets run, until its future has been woken. Data of a waiter must be on the heap,
//! because the stacks of sleeping greenlets are moved.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use redlock::ffi::fork_generation;

use crate::once_cell::{Once, intern};

/// The minimum and maximum sleep of a waiter. It grows with each sleep, and a wake-up resets it.
const SLEEPS: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(20));

/// The library whose greenlets run in this process.
pub(crate) struct Greenlets<'py> {
    sleep: Bound<'py, PyAny>,
    current: Bound<'py, PyAny>,
}

/// Returns `None` if neither library has patched the process. Costs two dict lookups.
pub(crate) fn in_use(py: Python<'_>) -> PyResult<Option<Greenlets<'_>>> {
    static MODULES: Once<Py<PyAny>> = Once::new();
    let modules = MODULES.import(py, "sys", "modules")?.cast::<PyDict>()?;
    let libraries = [
        (intern!(py, "gevent.monkey"), intern!(py, "saved"), intern!(py, "gevent")),
        (intern!(py, "eventlet.patcher"), intern!(py, "already_patched"), intern!(py, "eventlet")),
    ];
    for (patcher, patched, library) in libraries {
        let Some(patcher) = modules.get_item(patcher)? else { continue };
        if !patcher.getattr(patched)?.is_truthy()? {
            continue;
        }
        let sleep = py.import(library)?.getattr(intern!(py, "sleep"))?;
        let current = py.import(intern!(py, "greenlet"))?.getattr(intern!(py, "getcurrent"))?;
        return Ok(Some(Greenlets { sleep, current }));
    }
    Ok(None)
}

impl<'py> Greenlets<'py> {
    /// Returns the current greenlet.
    pub(crate) fn current(&self) -> PyResult<Bound<'py, PyAny>> {
        self.current.call0()
    }

    /// Creates a waiter of the current greenlet.
    pub(crate) fn waiter(self) -> Waiter<'py> {
        let wakes = Arc::new(Wakes { is_set: AtomicBool::new(false) });
        Waiter { library_sleep: self.sleep, wakes, process: fork_generation(), sleep: SLEEPS.0 }
    }
}

/// Polls a future on a greenlet.
pub(crate) struct Waiter<'py> {
    library_sleep: Bound<'py, PyAny>,
    wakes: Arc<Wakes>,
    /// The [`fork_generation`] of the process of its future.
    process: u32,
    sleep: Duration,
}

impl Waiter<'_> {
    /// Returns what its future wakes. Another thread may use it.
    pub(crate) fn wakes(&self) -> &Arc<Wakes> {
        &self.wakes
    }

    /// Lets other greenlets run for a short time. Raises the exception that ends this greenlet.
    pub(crate) fn pause(&mut self) -> PyResult<()> {
        self.library_sleep.call1((self.sleep.as_secs_f64(),))?;
        self.sleep = if self.is_woken() { SLEEPS.0 } else { (self.sleep * 2).min(SLEEPS.1) };
        Ok(())
    }

    /// Whether the future was woken since the last poll. In a forked child nothing wakes it, and its poll ends the
    /// call.
    pub(crate) fn is_woken(&self) -> bool {
        self.wakes.is_set.load(Ordering::SeqCst) || self.process != fork_generation()
    }
}

/// Wakes a waiter, from any thread and without the GIL.
pub(crate) struct Wakes {
    is_set: AtomicBool,
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
        self.is_set.store(true, Ordering::SeqCst);
    }
}
