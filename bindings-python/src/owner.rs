//! Identifies the owner of a lease: a thread, task or greenlet.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::thread;

use pyo3::prelude::*;
use redlock::ffi::Owner;

use crate::once::{Once, intern};
use crate::runtime::{event_loop, greenlets, hosts};

/// The thread, task or greenlet that calls us, with its word for messages. It identifies the owner of a lease.
pub(crate) fn current(py: Python<'_>) -> PyResult<Owner> {
    static CURRENT_TASK: Once<Py<PyAny>> = Once::new();
    if let Some(trio) = hosts::trio(py)? {
        return Ok(task(&trio.call_method0(intern!(py, "current_task"))?));
    }
    if let Some(event_loop) = event_loop::running(py)? {
        let current = CURRENT_TASK.import(py, "asyncio", "current_task")?.call1((event_loop,))?;
        if !current.is_none() {
            return Ok(task(&current));
        }
    }
    if let Some(greenlets) = greenlets::in_use(py)? {
        return greenlets.current().map(|address| Owner("this greenlet", address as u64));
    }
    let mut hasher = DefaultHasher::new();
    thread::current().id().hash(&mut hasher);
    Ok(Owner("this thread", hasher.finish()))
}

fn task(task: &Bound<'_, PyAny>) -> Owner {
    Owner("this task", task.as_ptr() as u64)
}
