//! Registration of callbacks for the loss of a lease.

use std::sync::{Arc, Weak};

use pyo3::prelude::*;

use super::Lease;
use crate::args;
use crate::errors::invalid;
use crate::runtime::callback::{Callback, Mark, is_coroutine_function};
use crate::runtime::watch::{CallbackThread, Watch};
use crate::runtime::{event_loop, lock, watch};

#[pymethods]
impl Lease {
    /// Calls `callback(error)` once with the LockLost, when the lease is lost; soon, if it is lost already. Never after
    /// a release.
    ///
    /// On the running event loop, or else on a thread for such calls; in the context (`contextvars`) of who registered
    /// it. On a loop it may be a coroutine function, which is run as a task. What this returns unregisters it when
    /// called. Raises InvalidOption for what cannot be called, and for a coroutine function where no event loop runs.
    ///
    ///     >>> done = threading.Event()
    ///     >>> forget = lease.on_lost(lambda error: print("not called"))
    ///     >>> forget()
    ///     >>> reasons = []
    ///     >>> forget = lease.on_lost(lambda error: (reasons.append(error.reason), done.set()))
    ///     >>> client.close()
    ///     >>> done.wait(5), reasons
    ///     (True, ['closed'])
    #[pyo3(signature = (callback: "collections.abc.Callable[[redlock.errors.LockLost], object]") -> "collections.abc.Callable[[], None]")]
    pub(super) fn on_lost(slf: &Bound<'_, Self>, callback: Bound<'_, PyAny>) -> PyResult<Watching> {
        let (py, callback) = (slf.py(), args::callback(callback)?);
        if event_loop::running(py)?.is_none() && is_coroutine_function(callback.bind(py))? {
            return Err(invalid(
                "callback is a coroutine function, and no event loop runs here that could run it: register it in a \
                 coroutine, or give a plain function",
            ));
        }
        let callback = Callback::here(py, callback)?;
        let mark = callback.mark();
        Ok(Watching { watch: slf.get().watch(py, callback)?, mark })
    }

    /// The same for what needs neither its context nor an end.
    #[pyo3(signature = (callback: "collections.abc.Callable[[redlock.errors.LockLost], object]") -> "None")]
    fn _on_lost(&self, py: Python<'_>, callback: Py<PyAny>) -> PyResult<()> {
        self.watch(py, Callback::plain(callback)).map(drop)
    }
}

impl Lease {
    /// Registers a callback, to be called in this thread's loop or by the dispatcher.
    fn watch(&self, py: Python<'_>, callback: Callback) -> PyResult<Weak<Watch>> {
        let in_loop = event_loop::running(py)?.is_some();
        let place =
            if in_loop { event_loop::callback_thread(py)? } else { CallbackThread::dispatcher() };
        let mut callback = callback;
        for watch in &*lock(&self.watches) {
            match watch.add(place, callback) {
                Ok(()) => return Ok(Arc::downgrade(watch)),
                Err(back) => callback = back,
            }
        }
        let lost = self.hold.lost();
        let watch = if in_loop {
            event_loop::watch(py, lost, callback)?
        } else {
            watch::on_dispatcher(py, lost, callback)?
        };
        let weak = Arc::downgrade(&watch);
        lock(&self.watches).push(watch);
        Ok(weak)
    }
}

pub(super) fn make_class(py: Python<'_>) {
    drop(py.get_type::<Watching>());
}

/// A callback that waits for a loss; called, it waits no longer.
#[pyclass(frozen, module = "redlock")]
pub(super) struct Watching {
    /// Weak, because a handle that unregisters a callback must not keep the lease alive.
    watch: Weak<Watch>,
    mark: Mark,
}

#[pymethods]
impl Watching {
    fn __call__(&self) {
        // It may be on its way to be called.
        self.mark.forget();
        if let Some(watch) = self.watch.upgrade() {
            watch.forget(&self.mark);
        }
    }
}
