//! The methods of `AsyncRedlock` that return immediately. `redlock._client` adds those that are awaited.

use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};

use super::Redlock;
pub(crate) use crate::construct::AsyncRedlock;
use crate::errors::not_async;
use crate::lease::async_lease::AsyncLease;
use crate::stats::Stats;
use crate::unsupported::unsupported_with;

#[pymethods]
impl AsyncRedlock {
    /// Returns the blocking form of this client. Both share connections, leases and the shutdown.
    ///
    ///     >>> redlock.AsyncRedlock("memory://").as_sync()
    ///     <redlock.Redlock memory://>
    fn as_sync(&self, py: Python<'_>) -> Py<Redlock> {
        self.client.clone_ref(py)
    }

    /// The blocking form, which has the futures that `redlock._client` awaits.
    #[getter]
    fn _client(&self, py: Python<'_>) -> Py<Redlock> {
        self.client.clone_ref(py)
    }

    /// Closes the client at once. Waiting acquires raise ClientClosed, its leases are lost, and their keys expire.
    ///
    ///     >>> client = redlock.AsyncRedlock("memory://")
    ///     >>> client.close()
    ///     >>> await client.lock("job").acquire()
    ///     Traceback (most recent call last):
    ///     redlock.ClientClosed: lock:job: the client is closed
    fn close(&self) -> PyResult<()> {
        self.client.get().close()
    }

    /// Returns the leases that this client holds now.
    ///
    ///     >>> async with redlock.AsyncRedlock("memory://") as client:
    ///     ...     async with client.lock("job"):
    ///     ...         [lease.key for lease in client.leases()]
    ///     ['lock:job']
    fn leases(&self, py: Python<'_>) -> PyResult<Vec<Py<AsyncLease>>> {
        let leases = self.client.get().leases(py).into_iter();
        leases.map(|lease| AsyncLease::make(py, lease)).collect()
    }

    /// Returns statistics of this client in this process. In a forked child they start at 0.
    ///
    ///     >>> redlock.AsyncRedlock("memory://").stats().held
    ///     0
    fn stats(&self) -> Stats {
        self.client.get().stats()
    }

    /// The URLs of the nodes, without user and password.
    ///
    ///     >>> redlock.AsyncRedlock("redis://user:secret@127.0.0.1:6379/1").nodes
    ///     ['redis://127.0.0.1:6379/1']
    #[getter]
    fn nodes(&self) -> Vec<String> {
        self.client.get().nodes()
    }

    fn __repr__(&self) -> String {
        format!("<redlock.AsyncRedlock {}>", self.nodes().join(" "))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.client)
    }
}

unsupported_with!(AsyncRedlock, __enter__, __exit__, |client| not_async(
    &client.__repr__(),
    "async with client:"
));

#[pymethods]
impl Redlock {
    /// Returns the asynchronous form of this client. Both share connections, leases and the shutdown.
    ///
    ///     >>> await redlock.Redlock("memory://").as_async().shutdown()
    ///     0
    fn as_async(slf: Py<Self>) -> AsyncRedlock {
        AsyncRedlock { client: slf }
    }
}
