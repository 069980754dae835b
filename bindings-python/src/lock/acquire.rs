//! An acquire that asyncio awaits: asked for on the loop, granted on the background thread, taken when the task resumes.

use std::sync::{Arc, Mutex, OnceLock};

use pyo3::prelude::*;
use redlock::ffi;

use super::Lock;
use crate::args::Wait;
use crate::call_site::CallSite;
use crate::caller::Caller;
use crate::errors::{check, internal};
use crate::lease::Lease;
use crate::runtime::event_loop::{Call, submit_call};
use crate::runtime::{exit, lock};

type Granted = Result<Option<redlock::Lease>, redlock::Error>;

/// One acquire, which begins when it is first asked for. What nobody takes is given back.
#[pyclass(frozen, name = "_Acquire", module = "redlock")]
pub(crate) struct Acquire {
    lock: Py<Lock>,
    call_site: CallSite,
    /// `None`: one round.
    wait: Option<Wait>,
    /// By whom it was begun.
    begun: OnceLock<(Caller, ffi::Acquire)>,
    call: Mutex<Option<Call>>,
    granted: Arc<Mutex<Option<Granted>>>,
}

impl Acquire {
    /// Not begun yet.
    pub(super) fn new(lock: Py<Lock>, call_site: CallSite, wait: Option<Wait>) -> Self {
        let (call, granted) = Default::default();
        Self { lock, call_site, wait, begun: OnceLock::new(), call, granted }
    }

    fn begun(&self, py: Python<'_>) -> PyResult<&(Caller, ffi::Acquire)> {
        if let Some(begun) = self.begun.get() {
            return Ok(begun);
        }
        let begun = self.lock.get().begin(py, self.call_site.clone(), self.wait)?;
        Ok(self.begun.get_or_init(|| begun))
    }
}

#[pymethods]
impl Acquire {
    /// An asyncio future that is done when there is an answer: then `accept`.
    #[pyo3(signature = () -> "asyncio.Future[None]")]
    fn ask<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let granted = Arc::clone(&self.granted);
        let future = self.begun(py)?.1.ask();
        let (asked, call) = submit_call(py, future, move |py, answer| {
            let old = lock(&granted).replace(answer);
            drop(old);
            Ok(py.None())
        })?;
        let old = lock(&self.call).replace(call);
        drop(old);
        Ok(asked)
    }

    /// Whether the answer stands, now that the task runs: if so, `lease`. False: its time was over before; `ask` again.
    fn accept(&self, py: Python<'_>) -> PyResult<bool> {
        let Some(answer) = lock(&self.granted).take() else { return Err(internal()) };
        let accepted = self.begun(py)?.1.accept(answer);
        *lock(&self.granted) = accepted;
        Ok(lock(&self.granted).is_some())
    }

    /// The lease; None where one round was not enough.
    fn lease(&self, py: Python<'_>) -> PyResult<Option<Py<Lease>>> {
        let Some(answer) = lock(&self.granted).take() else { return Err(internal()) };
        let lease = check(py, answer)?;
        lease.map(|lease| Lease::make(py, lease.into_handle(), &self.begun(py)?.0)).transpose()
    }

    /// Ends it; what was granted meanwhile is given back.
    fn give_up(&self) {
        if let Some((caller, _)) = self.begun.get() {
            exit::note(&caller.lock);
        }
        let call = lock(&self.call).take();
        drop(call);
        let granted = lock(&self.granted).take();
        drop(granted);
    }

    fn __traverse__(&self, visit: pyo3::PyVisit<'_>) -> Result<(), pyo3::PyTraverseError> {
        visit.call(&self.lock)
    }
}
