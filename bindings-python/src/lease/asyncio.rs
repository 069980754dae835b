//! The methods of a lease that `redlock._asyncio` calls: the futures that it awaits, and the state of each `async
//! with`.

use std::future::Future;

use pyo3::prelude::*;
use redlock::ffi::{self, Unit};

use super::Lease;
use crate::args;
use crate::errors::check;
use crate::runtime::spawn::spawn;
use crate::runtime::{begin_call, exit, lock};

#[pymethods]
impl Lease {
    /// Sends the commands of `extend`.
    #[pyo3(signature = (ttl: "float | datetime.timedelta | None") -> "collections.abc.Awaitable[None]")]
    fn _extend<'py>(
        &self,
        py: Python<'py>,
        ttl: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _asks = ffi::about_to_ask();
        let ttl = args::seconds("ttl", ttl)?;
        let sent = check(py, begin_call(|| ffi::extend(&self.hold, ttl, Unit::Seconds))?)?;
        spawn(py, sent, |py, done| check(py, done).map(|()| py.None()))
    }

    /// Sends the release, after a body that `completed` without an exception or not. A cancellation then ends only the
    /// wait for the confirmation.
    #[pyo3(signature = (completed: "bool" = false) -> "collections.abc.Awaitable[None]")]
    fn _release<'py>(&self, py: Python<'py>, completed: bool) -> PyResult<Bound<'py, PyAny>> {
        let _asks = ffi::about_to_ask();
        let sent = begin_call(|| self.give_back(completed))?;
        spawn(py, sent, |py, done| check(py, done).map(|()| py.None()))
    }

    /// The body of an `async with` that runs under this lease.
    #[getter]
    fn _body(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        lock(&self.body).as_ref().map(|body| body.clone_ref(py))
    }

    /// Begins an `async with` over the lease itself.
    #[pyo3(signature = (body: "object") -> "None")]
    fn _enter(&self, py: Python<'_>, body: Py<PyAny>) -> PyResult<()> {
        self.enter(py)?;
        *lock(&self.body) = Some(body);
        Ok(())
    }

    /// Ends the `async with`, and returns its body.
    #[pyo3(signature = () -> "typing.Any")]
    fn _leave(&self) -> Option<Py<PyAny>> {
        lock(&self.body).take()
    }

    /// Ends an `async with` whose release failed.
    #[pyo3(signature = (problem: "redlock.errors.LockError", error: "BaseException | None") -> "None")]
    fn _conclude(&self, problem: Bound<'_, PyAny>, error: &Bound<'_, PyAny>) -> PyResult<()> {
        self.conclude(problem, error)
    }

    /// Sends the release and does not wait.
    #[pyo3(name = "_let_go")]
    pub(crate) fn let_go(&self) {
        // This thread writes the command. The process may end before another thread would.
        let _asks = ffi::about_to_ask();
        // Its result is not awaited.
        let _ = begin_call(|| ffi::spawn(drop_output(self.give_back(false))).detach());
        exit::record_interrupted(&self.lock);
    }
}

async fn drop_output<F: Future>(future: F) {
    drop(future.await);
}
