//! Who asks for a lock, and what to tell them.

use std::sync::Arc;

use pyo3::exceptions::PyRuntimeWarning;
use pyo3::prelude::*;
use redlock::Error;
use redlock::ffi::NOT_REENTRANT;

use crate::error::check;
use crate::lease::{Lease, scope};
use crate::place::Place;
use crate::registry;
use crate::runtime::{self, Owner, farewell};

/// Who asks, for what, and where.
pub(crate) struct Asking {
    pub(crate) lock: Arc<redlock::Lock>,
    pub(crate) client: u64,
    pub(crate) owner: Owner,
    pub(crate) place: Place,
}

impl Asking {
    /// Drives a future of this lock; one that a signal handler ends still has its clean-up under way.
    pub(crate) fn wait<F>(
        &self,
        py: Python<'_>,
        future: F,
        when_slow: impl FnOnce(Python<'_>) -> PyResult<()>,
    ) -> PyResult<F::Output>
    where
        F: Future + Send,
        F::Output: Send,
    {
        runtime::wait(py, future, when_slow).inspect_err(|_| farewell::note(&self.lock))
    }

    pub(crate) fn lease(
        &self,
        py: Python<'_>,
        granted: Result<redlock::Lease, Error>,
    ) -> PyResult<Py<Lease>> {
        self.hold(py, granted.map(redlock::Lease::into_handle))
    }

    /// A lease that nobody picks up is left as it is: it may still be the other process's.
    pub(crate) fn attach(
        &self,
        token: &str,
    ) -> impl Future<Output = Result<redlock::LeaseHandle, Error>> + Send + 'static + use<> {
        let attached = self.lock.attach(token);
        async move { attached.await.map(redlock::Lease::into_handle) }
    }

    pub(crate) fn hold(
        &self,
        py: Python<'_>,
        granted: Result<redlock::LeaseHandle, Error>,
    ) -> PyResult<Py<Lease>> {
        Lease::make(py, check(py, granted)?, self)
    }
}

/// Warns of a lock that would wait for itself: this thread or task has it.
pub(crate) fn warn_of_own(
    py: Python<'_>,
    owner: Owner,
    client: u64,
    lock: &redlock::Lock,
) -> PyResult<()> {
    let ours = |lease: &Py<Lease>| {
        let lease = lease.get();
        lease.client == client && lease.hold.keys().iter().any(|key| lock.keys().contains(key))
    };
    let Some(lease) = registry::of_owner(py, owner).into_iter().find(ours) else { return Ok(()) };
    let (key, who, whence) = (
        redlock::ffi::shown(&lock.key()),
        owner.word(),
        redlock::ffi::acquired_at(&lease.get().hold),
    );
    let text =
        format!("{key}: {who} holds it already{whence}: {NOT_REENTRANT}, so this waits for itself");
    warn(py, &text)
}

fn warn(py: Python<'_>, text: &str) -> PyResult<()> {
    scope(py)?.call_method1("warn", (py.get_type::<PyRuntimeWarning>(), text)).map(drop)
}

/// Warns of a call that waits in an event loop's thread.
pub(crate) fn warn_of_loop(py: Python<'_>, instead: &str, about: &str) -> PyResult<()> {
    if runtime::running_loop(py)?.is_none() {
        return Ok(());
    }
    warn(
        py,
        &format!(
            "{}: waiting here blocks the event loop; use {instead}",
            redlock::ffi::shown(about)
        ),
    )
}
