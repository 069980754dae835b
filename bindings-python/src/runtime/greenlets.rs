//! gevent and eventlet: greenlets that share one thread, which must never be blocked while one of them waits.
//!
//! A process that either has patched waits by its `sleep`, which lets the other greenlets run, and looks again. What
//! waits that way has to live on the heap: the stacks of sleeping greenlets are moved elsewhere.

use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::once::{Once, intern};

/// How long a waiter sleeps before it looks again: longer each time.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(20));

/// Whose greenlets run this process's code.
pub(crate) struct Greenlets<'py> {
    sleep: Bound<'py, PyAny>,
    current: Bound<'py, PyAny>,
    pause: Duration,
}

/// `None` where neither library has patched the process: two look-ups in a dict.
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
        return Ok(Some(Greenlets { sleep, current, pause: PAUSES.0 }));
    }
    Ok(None)
}

impl Greenlets<'_> {
    /// The greenlet that runs now: its address.
    pub(crate) fn current(&self) -> PyResult<usize> {
        Ok(self.current.call0()?.as_ptr() as usize)
    }

    /// Lets other greenlets run briefly. Raises the exception that ends this greenlet.
    pub(crate) fn pause(&mut self) -> PyResult<()> {
        let pause = self.pause;
        self.pause = (pause * 2).min(PAUSES.1);
        self.sleep.call1((pause.as_secs_f64(),)).map(drop)
    }
}
