//! The class `AsyncLease`: a lease whose methods are awaited. `redlock._asyncio` adds those methods.

use std::hash::{DefaultHasher, Hash, Hasher};

use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};

use super::Lease;
use super::watching::Watching;
use crate::errors::not_async;
use crate::unsupported::{no_constructor, unsupported_with};

/// A lock that you hold, for asyncio, trio and anyio. It is renewed in the background until it is released or lost.
///
/// `async with lease:` releases it at the end of the block. It raises LockLost if the lease has ended, and RuntimeError
/// if it was entered before. A lease that is collected without a release is not released. Its renewal stops, the key
/// expires when its TTL ends, and a ResourceWarning shows where it was acquired.
///
///     >>> lease = await lock.as_async().acquire()
///     >>> async with lease:
///     ...     lease.held
///     True
#[pyclass(frozen, weakref, module = "redlock")]
pub(crate) struct AsyncLease {
    lease: Py<Lease>,
}

impl AsyncLease {
    /// The asynchronous form of this lease.
    pub(crate) fn make(py: Python<'_>, lease: Py<Lease>) -> PyResult<Py<Self>> {
        Py::new(py, Self { lease })
    }

    /// The blocking form, which has the state.
    pub(crate) fn sync(&self, py: Python<'_>) -> Py<Lease> {
        self.lease.clone_ref(py)
    }
}

no_constructor!(
    AsyncLease,
    "'await lock.acquire()' of an AsyncLock and lease.as_async() return one"
);

#[pymethods]
impl AsyncLease {
    /// Returns the blocking form of this lease. Both are the same lease: releasing either releases it.
    ///
    ///     >>> lease.as_async().as_sync() is lease
    ///     True
    fn as_sync(&self, py: Python<'_>) -> Py<Lease> {
        self.sync(py)
    }

    /// The blocking form, which has the futures that `redlock._asyncio` awaits.
    #[getter]
    fn _lease(&self, py: Python<'_>) -> Py<Lease> {
        self.sync(py)
    }

    /// Whether the lease is valid now. Does not contact a server.
    ///
    ///     >>> async with lock as lease:
    ///     ...     lease.held
    ///     True
    #[getter]
    fn held(&self) -> bool {
        self.lease.get().held()
    }

    /// The time for which the lease is valid, in seconds. 0 when it has ended.
    ///
    ///     >>> async with lock as lease:
    ///     ...     9 < lease.remaining < lease.ttl
    ///     True
    #[getter]
    fn remaining(&self) -> f64 {
        self.lease.get().remaining()
    }

    /// The Redis key. Several keys are separated by commas.
    ///
    ///     >>> async with lock as lease:
    ///     ...     lease.key
    ///     'lock:job'
    #[getter]
    fn key(&self) -> String {
        self.lease.get().key()
    }

    /// The Redis keys, in the order of the names.
    ///
    ///     >>> async with lock as lease:
    ///     ...     lease.keys
    ///     ['lock:job']
    #[getter]
    fn keys(&self) -> Vec<String> {
        self.lease.get().keys()
    }

    /// The value of the key, for `attach`: 32 hex digits, followed by a colon and the label if the lock has
    /// one. Keep it secret, because it allows to release the lock.
    ///
    ///     >>> async with lock as lease:
    ///     ...     len(lease.token)
    ///     32
    #[getter]
    fn token(&self) -> String {
        self.lease.get().token().to_owned()
    }

    /// A number that is larger than that of every earlier lease of the lock.
    ///
    /// A resource that stores the largest number it has seen can reject writes of earlier leases.
    ///
    /// Raises:
    ///     InvalidOption: The lock was made without `fencing=True`, or the lease is from `attach`.
    ///
    /// Example:
    ///     >>> async with client.lock("row", fencing=True) as first:
    ///     ...     pass
    ///     >>> async with client.lock("row", fencing=True) as second:
    ///     ...     second.fencing_token > first.fencing_token
    ///     True
    #[getter]
    fn fencing_token(&self, py: Python<'_>) -> PyResult<u64> {
        self.lease.get().fencing_token(py)
    }

    /// The lifetime that a renewal sets, in seconds: the lock's `ttl`, or the argument of the last confirmed
    /// `extend`. 0 in a forked child.
    ///
    ///     >>> async with lock as lease:
    ///     ...     lease.ttl
    ///     10.0
    #[getter]
    fn ttl(&self) -> f64 {
        self.lease.get().ttl()
    }

    /// Raises an error unless the lease is valid. Call it before each write. Does not contact a server.
    ///
    /// Raises:
    ///     LockLost: The lease was lost.
    ///     LockReleased: The lease was released.
    ///
    /// Example:
    ///     >>> async with lock as lease:
    ///     ...     lease.ensure_held()
    ///     >>> lease.ensure_held()
    ///     Traceback (most recent call last):
    ///     redlock.LockReleased: lock:job: the lease was released and is no longer held
    fn ensure_held(&self, py: Python<'_>) -> PyResult<()> {
        self.lease.get().ensure_held(py)
    }

    /// Ends the lease in this process and keeps the key. To transfer a lease, another process attaches to its `token`
    /// first.
    ///
    /// Returns:
    ///     Whether the lease was still held.
    ///
    /// Example:
    ///     >>> async with lock as lease:
    ///     ...     lease.detach()
    ///     True
    fn detach(&self) -> bool {
        self.lease.get().detach()
    }

    /// Calls `callback(error)` once if the lease is lost, or soon if it is lost already. Never after a release.
    ///
    /// The callback runs on the running event loop, in the caller's context (`contextvars`). It may be a coroutine
    /// function, which runs as a task. Without a running loop it runs on a separate thread.
    ///
    /// Args:
    ///     callback: Receives the LockLost.
    ///
    /// Returns:
    ///     A function that unregisters the callback.
    ///
    /// Raises:
    ///     InvalidOption: `callback` cannot be called, or it is a coroutine function and no event loop runs.
    ///
    /// Example:
    ///     >>> async with lock as lease:
    ///     ...     forget = lease.on_lost(lambda error: print(error.reason))
    ///     ...     forget()
    #[pyo3(signature = (callback: "collections.abc.Callable[[redlock.errors.LockLost], object]") -> "collections.abc.Callable[[], None]")]
    fn on_lost(&self, py: Python<'_>, callback: Bound<'_, PyAny>) -> PyResult<Watching> {
        Lease::on_lost(self.lease.bind(py), callback)
    }

    /// Two objects are equal if they are the same lease.
    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| self.lease.is(&other.get().lease))
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.lease.as_ptr() as usize).hash(&mut hasher);
        hasher.finish()
    }

    fn __repr__(&self) -> String {
        self.lease.get().shown("AsyncLease")
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.lease)
    }
}

unsupported_with!(AsyncLease, __enter__, __exit__, |lease| not_async(
    &lease.__repr__(),
    "async with lease:"
));

#[pymethods]
impl Lease {
    /// Returns the asynchronous form of this lease. Both are the same lease: releasing either releases it.
    ///
    ///     >>> async with lease.as_async() as same:
    ///     ...     same.token == lease.token
    ///     True
    fn as_async(slf: Py<Self>, py: Python<'_>) -> PyResult<Py<AsyncLease>> {
        AsyncLease::make(py, slf)
    }
}
