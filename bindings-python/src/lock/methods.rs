//! The blocking methods of a lock.

use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use pyo3::{PyTraverseError, PyVisit};
use redlock::ffi;

use super::exit_stack::{self, InterruptedEntry};
use super::open_scopes::OpenScope;
use super::{Lock, Names};
use crate::args;
use crate::call_site::{self, CallSite};
use crate::errors::check;
use crate::inspection::Inspection;
use crate::lease::Lease;
use crate::options::refuse_acquire;
use crate::runtime::wait::wait;
use crate::unsupported::no_constructor;

no_constructor!(Lock, "redlock.lock(name) and client.lock(name) make locks");

#[pymethods]
impl Lock {
    /// Acquires the lock, waiting if another client holds it.
    ///
    /// Emits a RuntimeWarning if an event loop runs in this thread. A KeyboardInterrupt before the lease is returned
    /// leaves no key behind.
    ///
    /// Args:
    ///     wait: Maximum time to wait, in seconds or as a timedelta. 0 tries once, `math.inf` waits forever. Default:
    ///         the lock's own `wait`.
    ///     timeout: Alias of `wait`, in this method only.
    ///
    /// Returns:
    ///     The lease.
    ///
    /// Raises:
    ///     LockTimeout: Another client held the lock all the time.
    ///     QuorumUnavailable: Too few nodes replied all the time.
    ///     ClientClosed: The client was closed.
    ///     InvalidOption: Both `wait` and `timeout` are given.
    ///
    /// Example:
    ///     >>> with lock.acquire(wait=5) as lease:
    ///     ...     lock.acquire(wait=0)
    ///     Traceback (most recent call last):
    ///     redlock.LockTimeout: lock:job: not acquired within ...
    #[pyo3(signature = (*args: "typing.Never", wait: "float | datetime.timedelta | None" = None, timeout: "float | datetime.timedelta | None" = None, **kwargs: "typing.Never"))]
    fn acquire(
        &self,
        py: Python<'_>,
        args: &Bound<'_, PyTuple>,
        wait: Option<&Bound<'_, PyAny>>,
        timeout: Option<&Bound<'_, PyAny>>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<Lease>> {
        refuse_acquire("acquire()", args, kwargs)?;
        self.waited_for(py, CallSite::here(py)?, args::wait(wait, timeout)?)
    }

    /// Tries once to acquire the lock. Returns the lease, or None if another holder has it.
    ///
    /// Also returns None if another caller in this process waits for the lock. Raises QuorumUnavailable if too few
    /// nodes replied. A KeyboardInterrupt before the lease is returned leaves no key behind.
    ///
    ///     >>> with lock.try_acquire() as lease:
    ///     ...     print(lock.try_acquire())
    ///     None
    fn try_acquire(&self, py: Python<'_>) -> PyResult<Option<Py<Lease>>> {
        self.acquired(py, CallSite::here(py)?, None)
    }

    /// Continues the lease that another process holds under this token. Raises LockLost if it is not held, and
    /// Unsupported if the key has data of another type.
    ///
    /// Both processes then hold the lock, and each renews it. A release by either process deletes the key, and the
    /// other process is notified of a loss. To hand a lease over, call `lease.detach()` in the first process. That
    /// process may also exit without a release. The lease does not include the fencing token. Pass it on together with
    /// the token.
    ///
    ///     >>> ours = lock.acquire()
    ///     >>> theirs = lock.attach(ours.token)      # as a rule in another process
    ///     >>> ours.detach()                        # the key stays: theirs has it
    ///     True
    ///     >>> theirs.release()
    #[pyo3(signature = (token: "str"))]
    pub(crate) fn attach(&self, py: Python<'_>, token: &Bound<'_, PyAny>) -> PyResult<Py<Lease>> {
        let token = args::text("token", Some(token))?.unwrap_or_default();
        let caller = self.caller(py, CallSite::here(py)?)?;
        let granted = caller.wait(py, caller.attach(&token))?;
        Self::attached(py, granted, &caller)
    }

    /// Returns a snapshot of the holder, as reported by each node. It may be outdated when you read it.
    ///
    /// Raises QuorumUnavailable if fewer nodes than a quorum replied within `node_timeout`.
    ///
    ///     >>> lock.inspect().held
    ///     False
    fn inspect(&self, py: Python<'_>) -> PyResult<Py<Inspection>> {
        let found = wait(py, self.core(py)?.1.inspect(), |_| Ok(()))?;
        Inspection::make(py, check(py, found)?)
    }

    /// The Redis key. The keys of several names are separated by commas.
    ///
    ///     >>> client.lock(["a", "b"]).key
    ///     'lock:a, lock:b'
    #[getter]
    pub(crate) fn key(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.core(py)?.1.key())
    }

    /// The Redis keys, in the order of the names.
    ///
    ///     >>> client.lock(["a", "b"]).keys
    ///     ['lock:a', 'lock:b']
    #[getter]
    pub(super) fn keys(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        Ok(self.core(py)?.1.keys().to_vec())
    }

    /// The name, without the client's prefix. Several names are separated by commas.
    ///
    ///     >>> client.lock("job").name
    ///     'job'
    #[getter]
    pub(crate) fn name(&self) -> String {
        self.names().join(", ")
    }

    /// The lifetime of a lease without renewal, in seconds.
    ///
    ///     >>> client.lock("job").ttl
    ///     10.0
    #[getter]
    pub(super) fn ttl(&self, py: Python<'_>) -> PyResult<f64> {
        Ok(check(py, ffi::times(&self.args))?.0.as_secs_f64())
    }

    /// Maximum time in seconds that an acquire waits. None waits forever.
    ///
    ///     >>> client.lock("job", wait=5).wait
    ///     5.0
    #[getter(wait)]
    pub(super) fn may_wait(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        Ok(check(py, ffi::times(&self.args))?.1.map(|wait| wait.as_secs_f64()))
    }

    /// The names, without the client's prefix.
    ///
    ///     >>> client.lock(["a", "b"]).names
    ///     ['a', 'b']
    #[getter]
    pub(super) fn names(&self) -> Vec<String> {
        match &self.names {
            Names::Fixed(names) => names.clone(),
            Names::Of(_) => Vec::new(),
        }
    }

    pub(crate) fn __enter__(slf: &Bound<'_, Self>) -> PyResult<Py<Lease>> {
        let (py, lock) = (slf.py(), slf.get());
        let frame = call_site::frame(py)?;
        // Registered first, because a signal handler may run before an ExitStack has registered the exit.
        let call_site = CallSite::of_frame(&frame)?;
        let may_be_stack = call_site.may_be_library();
        let interrupted =
            if may_be_stack { InterruptedEntry::register(slf, &frame)? } else { None };
        let lease = lock.waited_for(py, call_site.of_program(&frame)?, None)?;
        // No bytecode runs between the grant and this line, so a signal handler cannot run in between.
        let id = lock.open_scopes.add(&frame, lease.clone_ref(py), None);
        interrupted.inspect(|interrupted| interrupted.get().set_entry(id));
        Ok(lease)
    }

    #[pyo3(signature = (kind: "type[BaseException] | None", error: "BaseException | None", trace: "types.TracebackType | None") -> "None")]
    pub(crate) fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        error: &Bound<'_, PyAny>,
        trace: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let _ = (kind, trace);
        let OpenScope { lease, .. } = self.left(&call_site::frame(py)?)?;
        // For a decorated generator, the returned object holds the lease.
        lease.map_or(Ok(()), |lease| Lease::leave(lease.bind(py), error))
    }

    #[expect(clippy::unused_self, reason = "a method of Python's data model")]
    fn __bool__(&self) -> PyResult<bool> {
        Err(PyTypeError::new_err(
            "a Lock only describes what to lock, it is neither true nor false: use 'with lock:', or lease = lock.try_acquire()",
        ))
    }

    fn __repr__(&self) -> String {
        self.shown("Lock")
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.traverse(&visit)
    }

    fn __clear__(&self) {
        self.open_scopes.clear();
    }
}

impl Lock {
    /// For the garbage collector.
    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.source.traverse(visit)?;
        if let Names::Of(function) = &self.names {
            visit.call(function)?;
        }
        visit.call(&self.default)?;
        self.open_scopes.traverse(visit)
    }

    /// The representation of a lock of this class, for messages.
    pub(crate) fn shown(&self, class: &str) -> String {
        match &self.names {
            Names::Fixed(names) => {
                format!("<redlock.{class} {}>", redlock::ffi::shown(&names.join(", ")))
            }
            Names::Of(_) => format!("<redlock.{class} named by arguments>"),
        }
    }

    /// Removes the entry of the with statement that ends in `frame`.
    pub(super) fn left(&self, frame: &Bound<'_, PyAny>) -> PyResult<OpenScope> {
        if let Some(entry) = self.open_scopes.take(frame) {
            return Ok(entry);
        }
        // Other locks of the stack have other numbers.
        if let Some(entry) = exit_stack::entry(frame)?.and_then(|id| self.open_scopes.remove_id(id))
        {
            return Ok(entry);
        }
        self.open_scopes.take_elsewhere(frame)?.map_err(|others| {
            PyRuntimeError::new_err(format!(
                "{} is left by a thread or task that has not entered it, and {others} others have: \
                 nothing is released; keep the lease of lock.acquire() instead",
                self.shown("Lock")
            ))
        })
    }
}
