//! The methods of a client: convert the arguments, call the client of the core, convert the result.

pub(crate) mod async_client;
mod asyncio;
mod ending;
pub(crate) mod ping;

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyTuple};
use pyo3::{PyTraverseError, PyVisit};
use redlock::ffi::Described;

use crate::args;
use crate::callbacks::Kept;
pub(crate) use crate::construct::Redlock;
use crate::errors::check;
use crate::lease::Lease;
use crate::lock::async_lock::AsyncLock;
use crate::lock::{Lock, Names};
use crate::options::lock_args;
use crate::registry;
use crate::runtime::begin_call;
use crate::runtime::wait::wait;
use crate::source::ClientSource;
use crate::stats::Stats;

impl Redlock {
    /// Returns the lock of this client on a name or several, or with the names and options of a lock object.
    fn described(&self, py: Python<'_>, name: &Bound<'_, PyAny>) -> PyResult<redlock::Lock> {
        let client = &self.client.client;
        if let Ok(lock) = name.cast::<Lock>() {
            return lock.get().of_client(py, client);
        }
        if let Ok(lock) = name.cast::<AsyncLock>() {
            return lock.get().as_sync(py).get().of_client(py, client);
        }
        Ok(client.lock(args::names(name)?))
    }
}

#[pymethods]
impl Redlock {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        Kept::traverse(self.client.kept.as_ref(), &visit)
    }

    /// Continues the lease that another process holds under this token, with this `ttl` (default 10 seconds). Same as
    /// `lock(name).attach(token)`. Raises LockLost if it is not held.
    ///
    ///     >>> theirs = client.attach("job", lease.token, ttl=5)
    #[pyo3(signature = (
        name: "str | list[str] | tuple[str, ...]",
        token: "str",
        *,
        ttl: "float | datetime.timedelta | None" = None
    ))]
    fn attach(
        &self,
        py: Python<'_>,
        name: &Bound<'_, PyAny>,
        token: &Bound<'_, PyAny>,
        ttl: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<Lease>> {
        let options = lock_args(Described::Lock, &[("ttl", ttl)])?;
        let source = ClientSource::Client(self.client.clone());
        Lock::make(py, source, Names::Fixed(args::names(name)?), options)?.attach(py, token)
    }

    /// Deletes the key of a lock, regardless of its holder. Returns True if the key existed. A lock object may be
    /// passed instead of its name, and must be for the permits of a semaphore.
    ///
    /// The holder is notified of the loss. Raises QuorumUnavailable if too few nodes replied. Raises Unsupported if the
    /// key has a value that is not a token. It is then no lock, and stays.
    ///
    ///     >>> client.force_release("job")
    ///     True
    #[pyo3(signature = (name: "str | list[str] | tuple[str, ...] | Lock | AsyncLock"))]
    fn force_release(&self, py: Python<'_>, name: &Bound<'_, PyAny>) -> PyResult<bool> {
        let lock = self.described(py, name)?;
        check(py, wait(py, begin_call(|| lock.force_release())?, |_| Ok(()))?)
    }

    /// The leases that this client holds now.
    ///
    ///     >>> [lease.key for lease in client.leases()]
    ///     ['lock:job']
    pub(super) fn leases(&self, py: Python<'_>) -> Vec<Py<Lease>> {
        let leases = registry::objects(py, &self.client.client.leases());
        leases.into_iter().filter_map(|lease| Some(lease.cast_into().ok()?.unbind())).collect()
    }

    /// Releases all leases of this client and returns their number.
    ///
    /// Code that still runs under one of them receives LockLost with reason `revoked`. Raises the first error after
    /// trying to release all of them.
    ///
    ///     >>> client.release_all()
    ///     1
    fn release_all(&self, py: Python<'_>) -> PyResult<usize> {
        check(py, wait(py, begin_call(|| self.client.client.release_all())?, |_| Ok(()))?)
    }

    /// Returns statistics of this client in this process. In a forked child they start at 0.
    ///
    ///     >>> with client.lock("job"):
    ///     ...     client.stats().held
    ///     1
    pub(super) fn stats(&self) -> Stats {
        self.client.client.stats().into()
    }

    /// The number of the client, which all its objects share, and a function that returns its statistics. The function
    /// does not keep the client alive, and returns None once the program no longer uses it.
    #[pyo3(signature = () -> "tuple[int, collections.abc.Callable[[], Stats | None]]")]
    fn _stats_reader<'py>(&self, py: Python<'py>) -> PyResult<(u64, Bound<'py, PyCFunction>)> {
        let client = Arc::downgrade(&self.client.recipe);
        let read = move |_: &Bound<'_, PyTuple>, _: Option<&Bound<'_, PyDict>>| {
            client.upgrade().map(|client| client.stats())
        };
        Ok((self.client.number, PyCFunction::new_closure(py, None, None, read)?))
    }

    /// The URLs of the nodes, without user and password.
    ///
    ///     >>> redlock.Redlock("redis://user:secret@127.0.0.1:6379/1").nodes
    ///     ['redis://127.0.0.1:6379/1']
    #[getter]
    pub(super) fn nodes(&self) -> Vec<String> {
        self.client.client.nodes()
    }

    fn __repr__(&self) -> String {
        format!("<redlock.Redlock {}>", self.client.client.nodes().join(" "))
    }
}
