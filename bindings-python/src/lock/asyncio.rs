//! The methods of a lock that `redlock._asyncio` calls: the futures that it awaits, and the state of each `async with`.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::acquire::Acquire;
use super::exit_stack::InterruptedEntry;
use super::{Lock, Names};
use crate::args;
use crate::call_site::CallSite;
use crate::errors::check;
use crate::inspection::Inspection;
use crate::lease::Lease;
use crate::lease::async_lease::AsyncLease;
use crate::options::refuse_acquire;
use crate::runtime::spawn::spawn;

/// The lease of an `async with`, and the object that cancels its task.
type Left = (Option<Py<Lease>>, Option<Py<PyAny>>);

#[pymethods]
impl Lock {
    /// Sends the commands of `attach`, for the code at `site`.
    #[pyo3(signature = (site: "tuple[types.CodeType, int]", token: "str") -> "collections.abc.Awaitable[AsyncLease]")]
    fn _attach<'py>(
        &self,
        py: Python<'py>,
        site: CallSite,
        token: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let token = args::text("token", Some(token))?.unwrap_or_default();
        let caller = self.caller(py, site)?;
        let future = caller.attach(&token);
        spawn(py, future, move |py, granted| {
            Ok(AsyncLease::make(py, Self::attached(py, granted, &caller)?)?.into_any())
        })
    }

    /// Sends the commands of `inspect`.
    #[pyo3(signature = () -> "collections.abc.Awaitable[Inspection]")]
    fn _inspect<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let found = self.core(py)?.1.inspect();
        spawn(py, found, |py, found| Ok(Inspection::make(py, check(py, found)?)?.into_any()))
    }

    /// Begins an acquire, for the code at `site`.
    #[pyo3(signature = (site: "tuple[types.CodeType, int]", wait: "float | datetime.timedelta | None" = None, timeout: "float | datetime.timedelta | None" = None, *args: "typing.Any", **kwargs: "typing.Any"))]
    fn _start_acquire(
        &self,
        py: Python<'_>,
        site: CallSite,
        wait: Option<&Bound<'_, PyAny>>,
        timeout: Option<&Bound<'_, PyAny>>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Acquire> {
        refuse_acquire("acquire()", args, kwargs)?;
        let (caller, core) = self.begin_acquire(py, site, Some(args::wait(wait, timeout)?))?;
        Ok(Acquire::new(caller, core))
    }

    /// Begins an acquire that tries once, for the code at `site`.
    #[pyo3(signature = (site: "tuple[types.CodeType, int]"))]
    fn _begin_once(&self, py: Python<'_>, site: CallSite) -> PyResult<Acquire> {
        let (caller, core) = self.begin_acquire(py, site, None)?;
        Ok(Acquire::new(caller, core))
    }

    /// Records an `async with`: the frame that runs it, its lease, and the object that cancels its task.
    #[pyo3(signature = (frame: "types.FrameType", lease: "AsyncLease", body: "object", interrupted: "object | None") -> "None")]
    fn _enter(
        &self,
        frame: &Bound<'_, PyAny>,
        lease: &Bound<'_, AsyncLease>,
        body: Py<PyAny>,
        interrupted: Option<Bound<'_, InterruptedEntry>>,
    ) {
        let id = self.open_scopes.add(frame, lease.get().sync(frame.py()), Some(body));
        interrupted.inspect(|interrupted| interrupted.get().set_entry(id));
    }

    /// Registers an exit with the `AsyncExitStack` that runs in the frame, for an interrupt before the stack does.
    #[pyo3(signature = (frame: "types.FrameType") -> "object | None")]
    fn _register(
        slf: &Bound<'_, Self>,
        frame: &Bound<'_, PyAny>,
    ) -> PyResult<Option<Py<InterruptedEntry>>> {
        InterruptedEntry::register(slf, frame)
    }

    /// The end of the `async with` in `frame`: its lease and its body.
    #[pyo3(signature = (frame: "types.FrameType") -> "tuple[Lease, typing.Any]")]
    fn _leave(&self, frame: &Bound<'_, PyAny>) -> PyResult<Left> {
        let entry = self.left(frame)?;
        Ok((entry.lease, entry.body))
    }

    /// Removes the entry of this lease, whose body does not begin.
    #[pyo3(signature = (lease: "Lease") -> "None")]
    fn _forget(&self, lease: &Bound<'_, Lease>) {
        drop(self.open_scopes.remove_lease(lease));
    }

    /// Prevents the with statement that holds this lease from releasing it, because another caller will.
    #[pyo3(signature = (lease: "Lease") -> "None")]
    fn _hand_over(&self, lease: &Bound<'_, Lease>) {
        self.open_scopes.hand_over(lease);
    }

    /// The names, or the function that returns them, for a decorator.
    #[pyo3(name = "_given", signature = () -> "list[str] | collections.abc.Callable[..., str | list[str]]")]
    pub(crate) fn given(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match &self.names {
            Names::Fixed(names) => Ok(names.into_pyobject(py)?.unbind()),
            Names::Of(function) => Ok(function.clone_ref(py)),
        }
    }

    /// The value that a decorated call returns if it cannot acquire the lock. If empty, the call raises LockTimeout.
    #[pyo3(name = "_default", signature = () -> "tuple[typing.Any, ...]")]
    pub(crate) fn default<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.default.as_ref().map(|default| default.clone_ref(py)))
    }

    /// Returns the lock on these names, for a call of a decorated function.
    #[pyo3(signature = (names: "str | list[str]") -> "Lock")]
    fn _named(&self, py: Python<'_>, names: &Bound<'_, PyAny>) -> PyResult<Self> {
        let names = Names::Fixed(args::names(names)?);
        Self::make(py, self.source.clone(), names, self.args.clone())
    }
}
