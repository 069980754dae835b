//! Method names of other Python lock libraries that `Lock` does not have. The error names the replacement.

use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;
use pyo3::types::PyString;

use super::Lock;
use super::async_lock::AsyncLock;

/// Names of the locks of redis-py, python-redis-lock and pottery, each with its replacement.
const FOREIGN_METHODS: &[(&str, &str)] = &[
    ("release", "lease.release(), or the end of 'with lock:'"),
    ("do_release", "lease.release(), or the end of 'with lock:'"),
    ("extend", "lease.extend(ttl=...), which makes it last at least that long from now"),
    ("do_extend", "lease.extend(ttl=...), which makes it last at least that long from now"),
    ("reacquire", "lease.extend(), which makes it last its full ttl from now"),
    ("do_reacquire", "lease.extend(), which makes it last its full ttl from now"),
    ("locked", "lock.inspect().held, for any holder; lease.held, for your lease"),
    ("owned", "lease.held"),
    ("do_acquire", "lock.try_acquire(), which returns a lease or None"),
    ("timeout", "lock.ttl, how long a lease lasts; lock.wait, how long an acquire waits"),
    ("blocking_timeout", "lock.wait, how long an acquire waits"),
    ("blocking", "lock.wait, which is 0 if an acquire tries only once"),
    ("reset", "client.force_release(name), for any holder; or lease.release()"),
    (
        "get_owner_id",
        "lease.token, or lock.inspect(), which shows the first 8 digits of the holder's token",
    ),
    ("id", "lease.token, which is different for each lease"),
    ("local", "lease.token, which is different for each lease"),
];

#[pymethods]
impl Lock {
    #[expect(clippy::unused_self, reason = "a method of Python's data model")]
    fn __getattr__(&self, name: &Bound<'_, PyString>) -> PyResult<Py<PyAny>> {
        Err(no_attribute(
            &name.to_string_lossy(),
            "redlock.Lock",
            "A lease is what 'with lock as lease:' and lock.acquire() return",
        ))
    }
}

#[pymethods]
impl AsyncLock {
    #[expect(clippy::unused_self, reason = "a method of Python's data model")]
    fn __getattr__(&self, name: &Bound<'_, PyString>) -> PyResult<Py<PyAny>> {
        Err(no_attribute(
            &name.to_string_lossy(),
            "redlock.AsyncLock",
            "A lease is what 'async with lock as lease:' and 'await lock.acquire()' return. Await each method \
             that contacts a server",
        ))
    }
}

fn no_attribute(name: &str, class: &str, lease: &str) -> PyErr {
    PyAttributeError::new_err(match FOREIGN_METHODS.iter().find(|(method, _)| *method == name) {
        Some((_, instead)) => format!("{class} has no '{name}'. Use {instead}. {lease}"),
        None => format!("'{class}' object has no attribute '{name}'"),
    })
}
