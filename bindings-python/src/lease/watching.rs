//! Who is to be told of a loss, and until when.

use std::sync::{Arc, Weak};

use pyo3::prelude::*;
use pyo3::types::PyWeakrefReference;

use super::Lease;
use crate::args;
use crate::errors::invalid;
use crate::runtime::callback::{Callback, is_coroutine_function};
use crate::runtime::watch::Watch;
use crate::runtime::{event_loop, lock, watch};

#[pymethods]
impl Lease {
    /// Calls `callback(error)` once with the LockLost, when the lease is lost; soon, if it is lost already. Never after a
    /// release.
    ///
    /// On the running event loop, or else on a thread for such calls; in the context (`contextvars`) of who registered it.
    /// On a loop it may be a coroutine function, which is run as a task. What this returns unregisters it when called.
    /// Raises InvalidOption for what cannot be called, and for a coroutine function where no event loop runs.
    ///
    ///     >>> done = threading.Event()
    ///     >>> forget = lease.on_lost(lambda error: print("not called"))
    ///     >>> forget()
    ///     >>> forget = lease.on_lost(lambda error: (print(error.reason), done.set()))
    ///     >>> client.close()
    ///     >>> done.wait(5)
    ///     closed
    ///     True
    #[pyo3(signature = (callback: "collections.abc.Callable[[redlock.errors.LockLost], object]") -> "collections.abc.Callable[[], None]")]
    fn on_lost(slf: &Bound<'_, Self>, callback: Bound<'_, PyAny>) -> PyResult<Watching> {
        let (py, callback) = (slf.py(), args::callback(callback)?);
        if event_loop::running(py)?.is_none() && is_coroutine_function(callback.bind(py))? {
            return Err(invalid(
                "callback is a coroutine function, and no event loop runs here that could run it: register it in a \
                 coroutine, or give a plain function",
            ));
        }
        let watch = slf.get().watch(py, Callback::here(py, callback)?)?;
        Ok(Watching { lease: PyWeakrefReference::new(slf.as_any())?.unbind(), watch })
    }

    /// The same for what needs neither its context nor an end.
    #[pyo3(signature = (callback: "collections.abc.Callable[[redlock.errors.LockLost], object]") -> "None")]
    fn _on_lost(&self, py: Python<'_>, callback: Py<PyAny>) -> PyResult<()> {
        self.watch(py, Callback::plain(callback)).map(drop)
    }
}

impl Lease {
    fn watch(&self, py: Python<'_>, callback: Callback) -> PyResult<Weak<Watch>> {
        let lost = self.hold.lost();
        let watch = match event_loop::running(py)? {
            Some(_) => event_loop::watch(py, lost, callback)?,
            None => watch::on_dispatcher(py, lost, callback)?,
        };
        let weak = Arc::downgrade(&watch);
        lock(&self.watches).push(watch);
        Ok(weak)
    }

    fn forget(&self, watch: &Arc<Watch>) {
        let gone: Vec<_> =
            lock(&self.watches).extract_if(.., |known| Arc::ptr_eq(known, watch)).collect();
        drop(gone);
    }
}

pub(super) fn make_class(py: Python<'_>) {
    drop(py.get_type::<Watching>());
}

/// A callback that waits for a loss; called, it waits no longer.
#[pyclass(frozen, module = "redlock")]
struct Watching {
    /// Weak: who may unregister a callback does not keep the lease.
    lease: Py<PyWeakrefReference>,
    watch: Weak<Watch>,
}

#[pymethods]
impl Watching {
    fn __call__(&self, py: Python<'_>) -> PyResult<()> {
        let Some(watch) = self.watch.upgrade() else { return Ok(()) };
        watch.callback.forget();
        if let Some(lease) = self.lease.bind(py).upgrade_as::<Lease>()? {
            lease.get().forget(&watch);
        }
        Ok(())
    }
}
