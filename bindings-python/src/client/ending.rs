//! Ends a client: immediately, in order, or at the end of a with statement.

use std::time::Duration;

use pyo3::prelude::*;
use redlock::ffi;

use super::Redlock;
use crate::args::Timeout;
use crate::caller::warn_of_loop;
use crate::errors::{check, conclude_client, exception, not_sync};
use crate::runtime::begin_call;
use crate::runtime::spawn::spawn;
use crate::runtime::wait::wait;
use crate::unsupported::unsupported_with;

#[pymethods]
impl Redlock {
    /// Ends the client in order. Returns how many leases were still held at the timeout, or 0 if the client is already
    /// closed.
    ///
    /// From the call on, new acquires raise ClientClosed. Acquires that wait already have `timeout` to get their lease,
    /// and held leases to be released. At the timeout, acquires that still wait raise ClientClosed. Leases that are
    /// still held are released, and their holders are notified: LockLost, reason `revoked`. A node that cannot be
    /// reached and has pending deletes gets until `timeout` to return. A KeyboardInterrupt ends only the wait. The
    /// shutdown continues in the background.
    ///
    /// Args:
    ///     timeout: Seconds or a timedelta, default 10. With 0, acquires that wait and held leases end at once.
    ///
    /// Raises:
    ///     QuorumUnavailable: Too few nodes confirmed the releases, or the call blocks an event loop that must end an
    ///         acquire. Those keys expire when their TTL ends. The client is closed nevertheless.
    ///
    ///     >>> client.shutdown(timeout=0)            # a lease is still held
    ///     1
    #[pyo3(
        signature = (timeout: "float | datetime.timedelta" = Timeout::OF_SHUTDOWN) -> "int",
        text_signature = "($self, timeout=10)"
    )]
    fn shutdown(&self, py: Python<'_>, timeout: Timeout) -> PyResult<usize> {
        let ended = begin_call(|| self.client.client.shutdown(timeout.0))?;
        check(
            py,
            wait(py, ended, |py| {
                warn_of_loop(py, "'await client.as_async().shutdown()'", || Ok("shutdown()".into()))
            })?,
        )
    }

    /// Begins a shutdown.
    #[pyo3(signature = (timeout: "float | datetime.timedelta") -> "collections.abc.Awaitable[int]")]
    fn _shutdown<'py>(&self, py: Python<'py>, timeout: Timeout) -> PyResult<Bound<'py, PyAny>> {
        spawn(py, begin_call(|| self.client.client.shutdown(timeout.0))?, |py, done| {
            Ok(check(py, done)?.into_pyobject(py)?.into_any().unbind())
        })
    }

    /// Closes the client at once. Waiting acquires raise ClientClosed, its leases are lost, and their keys expire.
    ///
    ///     >>> client.close()
    ///     >>> client.lock("job").acquire()
    ///     Traceback (most recent call last):
    ///     redlock.ClientClosed: lock:job: the client is closed
    pub(super) fn close(&self) -> PyResult<()> {
        begin_call(|| self.client.client.close())
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
        match wait(py, begin_call(|| self.client.client.shutdown(Duration::ZERO))?, |_| Ok(()))? {
            Ok(_) => Ok(()),
            Err(problem) => conclude_client(exception(py, &problem)?, error),
        }
    }

    /// Sends the commands of the end of a `with` and does not wait.
    fn _let_go(&self) -> PyResult<()> {
        let client = &self.client.client;
        begin_call(|| {
            let ended = client.shutdown(Duration::ZERO);
            // Sent here, because the lease objects may be gone before the background thread runs.
            let sent = client.release_all();
            ffi::spawn(async move {
                drop(sent.await);
                drop(ended.await);
            })
            .detach();
        })
    }
}

unsupported_with!(Redlock, __aenter__, __aexit__, |client| not_sync(
    &client.__repr__(),
    "'async with client.as_async():', or 'with client:'"
));
