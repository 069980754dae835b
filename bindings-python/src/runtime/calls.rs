//! The calls of an event loop that a reply is expected for, each by its number.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};
use redlock::ffi::Job;

use super::lock;

/// A result that was not received. It is dropped with its loop, even if other code still refers to the loop.
pub(super) type Kept = Arc<dyn Any + Send + Sync>;

/// Without its job the future behind it ends.
struct Expected {
    asked: Py<PyAny>,
    _job: Job,
    /// Where there is something to keep, the call is here until it is dropped.
    kept: Option<Kept>,
}

/// All of a loop's.
#[derive(Default)]
pub(super) struct Calls(Mutex<HashMap<u64, Expected>>);

impl Calls {
    /// A reply is expected for this one.
    pub(super) fn insert(&self, id: u64, asked: Py<PyAny>, job: Job, kept: Option<Kept>) {
        lock(&self.0).insert(id, Expected { asked, _job: job, kept });
    }

    /// The future that waits for the reply to this call. Removes the call unless it keeps something.
    pub(super) fn asked(&self, py: Python<'_>, id: u64) -> Option<Py<PyAny>> {
        let mut calls = lock(&self.0);
        let call = calls.get(&id)?;
        if call.kept.is_some() {
            return Some(call.asked.clone_ref(py));
        }
        let ended = calls.remove(&id)?;
        drop(calls);
        Some(ended.asked)
    }

    /// For the garbage collector: what they keep.
    pub(super) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Ok(calls) = self.0.try_lock() else { return Ok(()) };
        calls.values().try_for_each(|call| visit.call(&call.asked))
    }
}

/// A call under way; dropping it ends the future behind it.
pub(crate) struct Call(u64, Weak<Calls>);

impl Call {
    /// The call of this number.
    pub(super) fn of(id: u64, calls: &Arc<Calls>) -> Self {
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
