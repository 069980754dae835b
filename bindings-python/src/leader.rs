//! The classes `Leader` and `AsyncLeader`: a candidate of an election, which runs a body while it leads.
//! `redlock._leader` adds the methods that run it.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use pyo3::{PyTraverseError, PyVisit};
use redlock::ffi::{self, Described};

use crate::bodies::class_methods;
use crate::client::Redlock;
use crate::client::async_client::AsyncRedlock;
use crate::errors::check;
use crate::function_macros::{Describes, FromLock, checked_options, functions, method};
use crate::lease::Lease;
use crate::lock::{Lock, Names};
use crate::runtime::spawn::spawn;
use crate::runtime::wait::wait;
use crate::source::ClientSource;

/// A candidate of an election, of which at most one leads at a time, over all clients.
///
/// `run` campaigns, calls a function while it leads, and campaigns again after a loss. `with leader as lease:` leads
/// for one term, until the block ends.
///
///     >>> leader = client.leader("scheduler", label="web-3")
///     >>> leader.run(lambda lease: (leader.is_leading, leader.current()))
///     (True, 'web-3')
///     >>> leader.is_leading, leader.current()
///     (False, None)
#[pyclass(frozen, weakref, module = "redlock")]
pub(crate) struct Leader {
    pub(crate) lock: Py<Lock>,
}

/// A candidate of an election, of which at most one leads at a time, over all clients. For asyncio, trio and anyio.
///
/// `run` campaigns, awaits a coroutine function while it leads, and campaigns again after a loss. `async with leader as
/// lease:` leads for one term, until the block ends.
///
///     >>> async with redlock.AsyncRedlock("memory://") as client:
///     ...     async with client.leader("scheduler", label="web-3") as lease:
///     ...         await client.leader("scheduler").current()
///     'web-3'
#[pyclass(frozen, weakref, module = "redlock")]
pub(crate) struct AsyncLeader {
    lock: Py<Lock>,
}

class_methods!(
    Leader,
    "client.leader(name)",
    "client.leader(\"scheduler\").key\n    'lock:scheduler'"
);
class_methods!(
    AsyncLeader,
    "client.leader(name)",
    "client.as_async().leader(\"scheduler\").key\n    'lock:scheduler'"
);

#[pymethods]
impl Leader {
    /// Whether this candidate leads at this moment. Does not contact a server.
    ///
    ///     >>> client.leader("scheduler").is_leading
    ///     False
    #[getter]
    fn is_leading(&self, py: Python<'_>) -> PyResult<bool> {
        self.lock.get().is_leading(py)
    }

    /// Asks the nodes for the leader, and returns its label, or None if there is none. It may be outdated on return.
    ///
    /// The label is empty if a client holds a plain lock of this name without a label. Raises QuorumUnavailable if
    /// fewer nodes than a quorum replied within `node_timeout`.
    ///
    ///     >>> with client.leader("scheduler", label="web-3"):
    ///     ...     client.leader("scheduler").current()
    ///     'web-3'
    fn current(&self, py: Python<'_>) -> PyResult<Option<String>> {
        let lock = self.lock.get().core(py)?.1;
        check(py, wait(py, ffi::current_leader(&lock), |_| Ok(()))?)
    }

    /// Returns the asynchronous form of this candidate, whose methods are awaited.
    ///
    ///     >>> client.leader("scheduler").as_async()
    ///     <redlock.AsyncLeader scheduler>
    fn as_async(&self, py: Python<'_>) -> AsyncLeader {
        AsyncLeader { lock: self.lock.clone_ref(py) }
    }

    fn __enter__(&self, py: Python<'_>) -> PyResult<Py<Lease>> {
        Lock::__enter__(self.lock.bind(py))
    }

    #[pyo3(signature = (kind: "type[BaseException] | None", error: "BaseException | None", trace: "types.TracebackType | None") -> "None")]
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        error: &Bound<'_, PyAny>,
        trace: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.lock.get().__exit__(py, kind, error, trace)
    }
}

#[pymethods]
impl AsyncLeader {
    /// Whether this candidate leads at this moment. Does not contact a server.
    ///
    ///     >>> client.as_async().leader("scheduler").is_leading
    ///     False
    #[getter]
    fn is_leading(&self, py: Python<'_>) -> PyResult<bool> {
        self.lock.get().is_leading(py)
    }

    /// Returns the blocking form of this candidate.
    ///
    ///     >>> client.as_async().leader("scheduler").as_sync()
    ///     <redlock.Leader scheduler>
    fn as_sync(&self, py: Python<'_>) -> Leader {
        Leader { lock: self.lock.clone_ref(py) }
    }
}

#[pymethods]
impl Lock {
    /// Sends the commands of `current`.
    #[pyo3(signature = () -> "collections.abc.Awaitable[str | None]")]
    fn _current_leader<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let found = ffi::current_leader(&self.core(py)?.1);
        spawn(py, found, |py, found| Ok(check(py, found)?.into_pyobject(py)?.unbind()))
    }
}

impl Lock {
    fn is_leading(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(ffi::is_leading(&self.core(py)?.1))
    }
}

functions! {
    leader(Described::Leader, "leader()") -> Leader, AsyncLeader;
    name: "str";
    /// Describes a candidate of an election, of which at most one leads at a time. Nothing is sent.
    ///
    /// A leader holds the lock of this name. A campaign has no time limit and survives outages.
    ;
    ///
    /// Each call looks up the default client, which `configure` sets.
    ;
    ///     >>> redlock.leader("scheduler").run(lambda lease: "led")
    ///     'led'
    ;
    ///     >>> with client.leader("scheduler", ttl=10) as lease:
    ///     ...     lease.held
    ///     True
    ;
    ///     >>> async def schedule(lease): return lease.held
    ///     >>> async with redlock.AsyncRedlock("memory://") as client:
    ///     ...     await client.leader("scheduler").run(schedule)
    ///     True
    ;
    ;
    ;
    /// - ttl: Time in seconds after which another candidate takes over from a process that died. The lease is renewed
    ///   while it leads. Minimum 0.1, default 10.
    ttl: "float | datetime.timedelta | None",
    /// - max_hold: Maximum time in seconds of a term. The lease is then lost, and the next campaign may win again.
    ///   Default None, which sets no limit.
    max_hold: "float | datetime.timedelta | None",
    /// - node_timeout: Timeout for the reply of one node, in seconds. Default the client's, else min(1, ttl / 5),
    ///   with `fsync` min(3, ttl / 3).
    node_timeout: "float | datetime.timedelta | None",
    /// - fencing: Whether each term has a fencing token, available as `lease.fencing_token`. Default False.
    fencing: "bool | None",
    /// - label: Label of this candidate, which `current` returns while it leads. 1 to 48 ASCII letters, digits or
    ///   characters of `._@-`. True writes the host and the process. Default the client's, else True.
    label: "str | bool | None",
}
