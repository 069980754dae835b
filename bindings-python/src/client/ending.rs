//! The end of a client: at once, in order, or of a with statement.

use std::time::Duration;

use pyo3::prelude::*;
use redlock::ffi;

use super::Redlock;
use crate::args::Timeout;
use crate::caller::warn_of_loop;
use crate::errors::{check, conclude};
use crate::runtime::submit::submit;
use crate::runtime::wait::wait;

#[pymethods]
impl Redlock {
    /// Ends it in order: acquires fail with ClientClosed from now on, running leases have `timeout` seconds (default 10) to
    /// be released, and what is left is given back. Whoever still runs under one is told: LockLost, reason `released`. Says
    /// how many leases it had to give back. A node that is away and is owed a delete is waited for within `timeout`, as it
    /// may be back.
    ///
    /// Raises QuorumUnavailable when too few nodes confirmed: those keys expire by themselves. It is closed all the same.
    ///
    ///     >>> client.shutdown(timeout=0)            # a lease is still held
    ///     1
    #[pyo3(signature = (timeout: "float | datetime.timedelta" = Timeout::DEFAULT) -> "int")]
    fn shutdown(&self, py: Python<'_>, timeout: Timeout) -> PyResult<usize> {
        let ended = self.client.client.shutdown(timeout.0);
        check(
            py,
            wait(py, ended, |py| warn_of_loop(py, "'await client.ashutdown()'", "shutdown()"))?,
        )
    }

    /// Begins what `ashutdown` does.
    #[pyo3(signature = (timeout: "float | datetime.timedelta") -> "collections.abc.Awaitable[int]")]
    fn _shutdown<'py>(&self, py: Python<'py>, timeout: Timeout) -> PyResult<Bound<'py, PyAny>> {
        submit(py, self.client.client.shutdown(timeout.0), |py, done| {
            Ok(check(py, done)?.into_pyobject(py)?.into_any().unbind())
        })
    }

    /// Ends it at once: waiting acquires fail with ClientClosed, its leases are lost, and their keys expire.
    ///
    ///     >>> client.close()
    ///     >>> client.lock("job").acquire()
    ///     Traceback (most recent call last):
    ///     redlock.ClientClosed: lock:job: the client is closed
    fn close(&self) {
        self.client.client.close();
    }

    #[pyo3(signature = () -> "typing.Self")]
    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (kind: "type[BaseException] | None", error: "BaseException | None", trace: "types.TracebackType | None") -> "None")]
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        error: &Bound<'_, PyAny>,
        trace: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let _ = (kind, trace);
        match wait(py, self.client.client.shutdown(Duration::ZERO), |_| Ok(()))? {
            Ok(_) => Ok(()),
            Err(problem) => conclude(py, &problem, error),
        }
    }

    /// Sends what `with` does at its end and does not wait.
    fn _let_go(&self) {
        let ended = self.client.client.shutdown(Duration::ZERO);
        // Sent here: the leases' objects may be gone before the background thread comes to it.
        let sent = self.client.client.release_all();
        ffi::spawn(async move {
            drop(sent.await);
            drop(ended.await);
        })
        .detach();
    }
}
