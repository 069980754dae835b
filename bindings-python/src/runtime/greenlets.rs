//! Supports gevent and eventlet, whose greenlets share one thread. A waiting greenlet must not block that thread.
//!
//! In a process that either library has patched, a waiter polls and calls the library's `sleep` in between, which lets
//! other greenlets run. Data of a waiter must be on the heap, because the stacks of sleeping greenlets are moved.

use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::once_cell::{Once, intern};

/// The minimum and maximum sleep between two polls. It grows with each poll.
const POLL_PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(20));

/// The library whose greenlets run in this process.
pub(crate) struct Greenlets<'py> {
    sleep: Bound<'py, PyAny>,
    current: Bound<'py, PyAny>,
    pause: Duration,
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
        return Ok(Some(Greenlets { sleep, current, pause: POLL_PAUSES.0 }));
    }
    Ok(None)
}

impl<'py> Greenlets<'py> {
    /// Returns the current greenlet.
    pub(crate) fn current(&self) -> PyResult<Bound<'py, PyAny>> {
        self.current.call0()
    }

    /// Lets other greenlets run briefly. Raises the exception that ends this greenlet.
    pub(crate) fn pause(&mut self) -> PyResult<()> {
        let pause = self.pause;
        self.pause = (pause * 2).min(POLL_PAUSES.1);
        self.sleep.call1((pause.as_secs_f64(),)).map(drop)
    }
}
