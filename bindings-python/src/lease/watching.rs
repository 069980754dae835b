//! Registration of callbacks for the loss of a lease.

use std::sync::{Arc, Weak};

use pyo3::prelude::*;

use super::Lease;
use crate::args;
use crate::errors::invalid;
use crate::runtime::loss_callback::{Callback, Mark, is_coroutine_function};
use crate::runtime::watch::{CallbackThread, Watch};
use crate::runtime::{event_loop, lock, watch};

#[pymethods]
impl Lease {
    /// Calls `callback(error)` once if the lease is lost, or soon if it is lost already. Never after a release.
    ///
    /// The callback runs on the running event loop, in the caller's context (`contextvars`). Without a running loop it
    /// runs on a separate thread. On a loop it may be a coroutine function, which runs as a task. Returns a function
    /// that unregisters the callback. Raises InvalidOption if `callback` cannot be called, or if it is a coroutine
    /// function and no event loop runs.
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

    /// Like `on_lost`, without a context and without a function that unregisters the callback.
    #[pyo3(signature = (callback: "collections.abc.Callable[[redlock.errors.LockLost], object]") -> "None")]
    fn _on_lost(&self, py: Python<'_>, callback: Py<PyAny>) -> PyResult<()> {
        self.watch(py, Callback::plain(callback)).map(drop)
    }
}

impl Lease {
    /// Registers a callback, to be called in this thread's loop or by the dispatcher of losses.
    fn watch(&self, py: Python<'_>, callback: Callback) -> PyResult<Weak<Watch>> {
        let in_loop = event_loop::running(py)?.is_some();
        let place =
            if in_loop { event_loop::callback_thread(py)? } else { CallbackThread::dispatcher() };
        let mut callback = callback;
        for watch in &*lock(&self.watches) {
            match watch.add(&place, callback) {
                Ok(()) => return Ok(Arc::downgrade(watch)),
                Err(back) => callback = back,
            }
        }
        let lost = self.hold.lost();
        let watch = if in_loop {
            event_loop::watch(py, lost, callback)?
        } else {
            watch::on_dispatcher(py, self.recipe.number(), lost, callback)?
        };
        let weak = Arc::downgrade(&watch);
        let over: Vec<_> = {
            let mut watches = lock(&self.watches);
            watches.push(watch);
            watches.extract_if(.., |watch| watch.is_over()).collect()
        };
        // Dropped last, because dropping a callback may run code that uses the lease.
        drop(over);
        Ok(weak)
    }
}

pub(super) fn make_class(py: Python<'_>) {
    drop(py.get_type::<Watching>());
}

/// The function that unregisters a callback.
#[pyclass(frozen, module = "redlock")]
pub(super) struct Watching {
    /// Weak, because a handle that unregisters a callback must not keep the lease alive.
    watch: Weak<Watch>,
    mark: Mark,
}

#[pymethods]
impl Watching {
    fn __call__(&self) {
        // The call may already be scheduled.
        self.mark.forget();
        if let Some(watch) = self.watch.upgrade() {
            watch.forget(&self.mark);
        }
    }
}
