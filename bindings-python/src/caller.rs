//! The caller of an acquire, and the result that it receives.

use std::sync::Arc;
use std::time::Instant;

use pyo3::exceptions::PyRuntimeWarning;
use pyo3::prelude::*;
use redlock::LeaseHandle;
use redlock::ffi::{self, NOT_REENTRANT, Owner};

use crate::call_site::{CallSite, in_cell, warn};
use crate::callbacks::Kept;
use crate::errors::check;
use crate::runtime::origin::{CallContext, Originating};
use crate::runtime::{event_loop, exit, observe, wait};
use crate::source::Recipe;

type Answer = Result<Option<redlock::Lease>, redlock::Error>;

/// The caller of an acquire, its lock, and its call site.
pub(crate) struct Caller {
    pub(crate) lock: Arc<redlock::Lock>,
    /// Owns the functions of the client.
    pub(crate) kept: Option<Kept>,
    /// Keeps the statistics of the client readable.
    pub(crate) recipe: Arc<Recipe>,
    pub(crate) owner: Owner,
    pub(crate) call_site: CallSite,
    /// Owns the context variables of the call site.
    pub(crate) context: Option<CallContext>,
    pub(crate) began: Instant,
}

impl Caller {
    /// Drives a future of this lock that ends with a lease. If an exception ends it, its clean-up is still under way
    /// and is recorded. An exception that another thread has set is raised here, because the lease would be lost
    /// otherwise.
    pub(crate) fn wait<F>(&self, py: Python<'_>, future: F) -> PyResult<F::Output>
    where
        F: Future + Send,
        F::Output: Send,
    {
        let future = Originating::new(future, &self.call_site);
        let waited = wait::wait(py, future, |_| Ok(()));
        waited
            .and_then(|lease| wait::raise_injected(py).map(|()| lease))
            .inspect_err(|_| exit::record_interrupted(&self.lock))
    }

    /// Reports the result to the tracing observer and returns it. A Ctrl-C in the meantime leaves no lease held.
    pub(crate) fn observed(
        &self,
        py: Python<'_>,
        answer: Answer,
    ) -> PyResult<Option<redlock::Lease>> {
        observe::call_observer(py, || self.lock.key(), self.began.elapsed(), &answer)?;
        check(py, answer)
    }

    /// If the caller does not receive the lease, its key is not deleted. The other process may still hold it.
    pub(crate) fn attach(
        &self,
        token: &str,
    ) -> impl Future<Output = Result<redlock::LeaseHandle, redlock::Error>> + Send + 'static + use<>
    {
        let attached = self.lock.attach(token);
        async move { attached.await.map(redlock::Lease::into_handle) }
    }

    /// Warns that this thread or task holds the lock and would wait for itself.
    pub(crate) fn warn_of_own(&self, py: Python<'_>, held: &LeaseHandle) -> PyResult<()> {
        let (key, whence) = (ffi::shown(&self.lock.key()), ffi::acquired_at(held));
        let (who, what) = (self.owner.0, ffi::own_part(&self.lock));
        let when = if ffi::shared_by(&self.lock, held) { " once a writer waits" } else { "" };
        warn::<PyRuntimeWarning>(
            py,
            &format!(
                "{key}: {who} already holds {what}{whence}. {NOT_REENTRANT}, so this call waits for itself{when}"
            ),
        )
    }
}

/// Warns about a call that blocks the thread of an event loop.
pub(crate) fn warn_of_loop(
    py: Python<'_>,
    instead: &str,
    about: impl FnOnce() -> PyResult<String>,
) -> PyResult<()> {
    if event_loop::running(py)?.is_none() || in_cell(py)? {
        return Ok(());
    }
    let about = about()?;
    let about = ffi::shown(&about);
    let text = format!("{about}: waiting here blocks the event loop; use {instead}");
    warn::<PyRuntimeWarning>(py, &text)
}
