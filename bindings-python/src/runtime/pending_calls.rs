//! The pending calls of an event loop, by number.

use std::any::Any;
use std::sync::{Arc, Mutex, Weak};

use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};
use redlock::ffi::Job;

use super::{ByNumber, lock};

/// A result that was not received. It is dropped with its loop, even if other code still refers to the loop.
pub(super) type CallData = Arc<dyn Any + Send + Sync>;

/// A pending call. Dropping its job cancels the future.
struct Expected {
    loop_future: Py<PyAny>,
    _job: Job,
    /// If set, the call stays registered until the [`Call`] is dropped.
    kept: Option<CallData>,
}

/// The pending calls of one loop.
#[derive(Default)]
pub(super) struct PendingCalls(Mutex<ByNumber<Expected>>);

impl PendingCalls {
    /// Adds a pending call.
    pub(super) fn insert(&self, id: u64, loop_future: Py<PyAny>, job: Job, kept: Option<CallData>) {
        lock(&self.0).insert(id, Expected { loop_future, _job: job, kept });
    }

    /// The future that waits for the reply to this call. Removes the call unless it keeps something.
    pub(super) fn loop_future(&self, py: Python<'_>, id: u64) -> Option<Py<PyAny>> {
        let mut calls = lock(&self.0);
        let call = calls.get(&id)?;
        if call.kept.is_some() {
            return Some(call.loop_future.clone_ref(py));
        }
        let ended = calls.remove(&id)?;
        drop(calls);
        Some(ended.loop_future)
    }

    /// For the garbage collector.
    pub(super) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Ok(calls) = self.0.try_lock() else { return Ok(()) };
        calls.values().try_for_each(|call| visit.call(&call.loop_future))
    }
}

/// A call under way. Dropping it cancels the future.
pub(crate) struct Call(u64, Weak<PendingCalls>);

impl Call {
    /// Creates the handle of the call with this number.
    pub(super) fn new(id: u64, calls: &Arc<PendingCalls>) -> Self {
        Self(id, Arc::downgrade(calls))
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let calls = self.1.upgrade();
        let ended = calls.and_then(|calls| lock(&calls.0).remove(&self.0));
        drop(ended);
    }
}
