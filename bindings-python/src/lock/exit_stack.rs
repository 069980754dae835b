//! Entries by an `ExitStack`, which has one frame for the entry and another one for the exit.

use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::prelude::*;

use super::Lock;
use crate::call_site;
use crate::errors::tried;
use crate::lease::Lease;
use crate::once_cell::intern;

/// Returns the number of the entry that an `ExitStack` leaves in this frame, for any other frame `None`.
///
/// The stack calls the exit of the lock, which it registered after our [`InterruptedEntry`].
pub(super) fn entry(frame: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
    if frame.is_none() || !call_site::module(frame)?.eq("contextlib")? {
        return Ok(None);
    }
    let last = |stack: Bound<'_, PyAny>| {
        let callbacks = stack.getattr(intern!(stack.py(), "_exit_callbacks"))?;
        let callback = callbacks.get_item(-1)?.get_item(1)?;
        Ok(callback.cast::<InterruptedEntry>()?.get().id.load(Ordering::Relaxed))
    };
    match call_site::object(frame)? {
        None => Ok(None),
        Some(stack) => tried(frame.py(), last(stack)),
    }
}

/// Leaves the lock at the end of an `ExitStack` if an interrupt came before the stack registered the exit.
///
/// The stack owns it from before the acquire, and calls it after its own exit of the lock.
#[pyclass(frozen, module = "redlock", name = "_InterruptedEntry")]
pub(crate) struct InterruptedEntry {
    lock: Py<Lock>,
    /// The entry, or 0 before there is one.
    id: AtomicU64,
}

impl InterruptedEntry {
    /// Registers one with the stack that runs in this frame. Returns `None` in any other frame.
    pub(super) fn register(
        lock: &Bound<'_, Lock>,
        frame: &Bound<'_, PyAny>,
    ) -> PyResult<Option<Py<Self>>> {
        let py = frame.py();
        if !call_site::module(frame)?.eq("contextlib")? {
            return Ok(None);
        }
        let Some(stack) = call_site::object(frame)? else { return Ok(None) };
        let made = Py::new(py, Self { lock: lock.clone().unbind(), id: AtomicU64::new(0) })?;
        let pushed = tried(py, stack.call_method1(intern!(py, "push"), (&made,)))?;
        Ok(pushed.map(|_| made))
    }

    /// From now on it leaves this entry.
    pub(super) fn set_entry(&self, id: u64) {
        self.id.store(id, Ordering::Relaxed);
    }
}

#[pymethods]
impl InterruptedEntry {
    fn __call__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        error: &Bound<'_, PyAny>,
        trace: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let _ = (kind, trace);
        let Some(entry) = self.lock.get().open_scopes.remove_id(self.id.load(Ordering::Relaxed))
        else {
            return Ok(());
        };
        let Some(lease) = entry.lease else { return Ok(()) };
        match entry.body {
            None => Lease::leave(lease.bind(py), error),
            // A coroutine would have to wait for the release.
            Some(body) => {
                lease.get().let_go();
                body.call_method1(py, intern!(py, "finish"), (error,)).map(drop)
            }
        }
    }

    fn __traverse__(&self, visit: pyo3::PyVisit<'_>) -> Result<(), pyo3::PyTraverseError> {
        visit.call(&self.lock)
    }
}

/// Creates the class that no module exports.
pub(crate) fn make_class(py: Python<'_>) {
    drop(py.get_type::<InterruptedEntry>());
}
