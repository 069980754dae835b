//! The class `AsyncLock`: a lock whose methods are awaited. `redlock._asyncio` adds those methods.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};

use super::Lock;
use crate::errors::not_async;
use crate::unsupported::{no_constructor, unsupported_with};

/// Describes what to lock, for asyncio, trio and anyio. It has no state: share it between tasks and use it many times.
///
/// `async with lock as lease:` holds the lock for the block. `@lock` holds it for each call of an `async def`.
///
///     >>> async with redlock.AsyncRedlock("memory://") as client:
///     ...     async with client.lock("job", ttl=10) as lease:
///     ...         lease.key
///     'lock:job'
#[pyclass(frozen, weakref, module = "redlock")]
pub(crate) struct AsyncLock {
    lock: Py<Lock>,
}

impl AsyncLock {
    /// The asynchronous form of this lock.
    pub(crate) fn from_lock(lock: Py<Lock>) -> Self {
        Self { lock }
    }
}

no_constructor!(AsyncLock, "AsyncRedlock.lock(name) and lock.as_async() return one");

#[pymethods]
impl AsyncLock {
    /// Returns the blocking form of this lock.
    ///
    ///     >>> redlock.AsyncRedlock("memory://").lock("job").as_sync()
    ///     <redlock.Lock job>
    pub(crate) fn as_sync(&self, py: Python<'_>) -> Py<Lock> {
        self.lock.clone_ref(py)
    }

    /// The blocking form, which has the futures that `redlock._asyncio` awaits.
    #[getter]
    fn _lock(&self, py: Python<'_>) -> Py<Lock> {
        self.lock.clone_ref(py)
    }

    /// The Redis key. The keys of several names are separated by commas.
    ///
    ///     >>> redlock.AsyncRedlock("memory://").lock(["a", "b"]).key
    ///     'lock:a, lock:b'
    #[getter]
    fn key(&self, py: Python<'_>) -> PyResult<String> {
        self.lock.get().key(py)
    }

    /// The Redis keys, in the order of the names.
    ///
    ///     >>> redlock.AsyncRedlock("memory://").lock(["a", "b"]).keys
    ///     ['lock:a', 'lock:b']
    #[getter]
    fn keys(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.lock.get().keys(py)
    }

    /// The name, without the client's prefix. Several names are separated by commas.
    ///
    ///     >>> redlock.AsyncRedlock("memory://").lock("job").name
    ///     'job'
    #[getter]
    fn name(&self) -> String {
        self.lock.get().name()
    }

    /// The names, without the client's prefix.
    ///
    ///     >>> redlock.AsyncRedlock("memory://").lock(["a", "b"]).names
    ///     ['a', 'b']
    #[getter]
    fn names(&self) -> Vec<String> {
        self.lock.get().names()
    }

    /// The lifetime of a lease without renewal, in seconds.
    ///
    ///     >>> redlock.AsyncRedlock("memory://").lock("job").ttl
    ///     10.0
    #[getter]
    fn ttl(&self, py: Python<'_>) -> PyResult<f64> {
        self.lock.get().ttl(py)
    }

    /// The maximum time that an acquire waits, in seconds. None: forever.
    ///
    ///     >>> redlock.AsyncRedlock("memory://").lock("job", wait=5).wait
    ///     5.0
    #[getter]
    fn wait(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        self.lock.get().may_wait(py)
    }

    #[expect(clippy::unused_self, reason = "a method of Python's data model")]
    fn __bool__(&self) -> PyResult<bool> {
        Err(PyTypeError::new_err(
            "an AsyncLock only describes what to lock, it is neither true nor false: use 'async with lock:', or \
             lease = await lock.try_acquire()",
        ))
    }

    fn __repr__(&self) -> String {
        self.lock.get().shown("AsyncLock")
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.lock)
    }
}

unsupported_with!(AsyncLock, __enter__, __exit__, |lock| not_async(
    &lock.__repr__(),
    "async with lock as lease:"
));

#[pymethods]
impl Lock {
    /// Returns the asynchronous form of this lock, whose methods are awaited.
    ///
    ///     >>> lease = await lock.as_async().acquire(wait=5)
    ///     >>> await lease.release()
    fn as_async(slf: Py<Self>) -> AsyncLock {
        AsyncLock::from_lock(slf)
    }
}
