//! An acquire that asyncio awaits: asked for on the loop, granted on the background thread, taken when the task resumes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use pyo3::exceptions::{PyRuntimeError, PyRuntimeWarning};
use pyo3::prelude::*;
use redlock::ffi;

use super::Lock;
use crate::args::Wait;
use crate::call_site::{CallSite, warn_in_drop};
use crate::caller::Caller;
use crate::errors::internal;
use crate::lease::Lease;
use crate::runtime::submit::{Call, submit_call};
use crate::runtime::{exit, lock};

type Granted = Result<Option<redlock::Lease>, redlock::Error>;

/// One acquire, to be awaited once or entered by `async with`. It begins then; what nobody takes is given back.
#[pyclass(frozen, name = "_Acquire", module = "redlock")]
pub(crate) struct Acquire {
    lock: Py<Lock>,
    call_site: CallSite,
    /// `None`: one round.
    wait: Option<Wait>,
    /// By whom it was begun.
    begun: OnceLock<(Caller, ffi::Acquire)>,
    call: Mutex<Option<Call>>,
    /// The answer, which its loop keeps: with it goes a lease that nobody can take any more.
    granted: Mutex<Weak<Mutex<Option<Granted>>>>,
    /// The answer that stands.
    accepted: Mutex<Option<Granted>>,
    /// Somebody awaits it, or has.
    awaited: AtomicBool,
    /// Its lease was handed out, or it was given up.
    over: AtomicBool,
    /// Of an `async with` over this: what it holds.
    entered: Mutex<Option<Py<Lease>>>,
    /// What runs it where it is driven as a coroutine, as by a task.
    steps: Mutex<Option<Py<PyAny>>>,
}

impl Acquire {
    /// Not begun yet.
    pub(super) fn new(lock: Py<Lock>, call_site: CallSite, wait: Option<Wait>) -> Self {
        let (begun, call, granted, accepted) = Default::default();
        let (awaited, over, entered, steps) = Default::default();
        Self {
            lock,
            call_site,
            wait,
            begun,
            call,
            granted,
            accepted,
            awaited,
            over,
            entered,
            steps,
        }
    }

    fn end_call(&self) {
        let call = lock(&self.call).take();
        drop(call);
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
        self.awaited.store(true, Ordering::Relaxed);
        if self.over.load(Ordering::Relaxed) || lock(&self.call).is_some() {
            return Err(PyRuntimeError::new_err(
                "this acquire was awaited already: each needs a call of its own",
            ));
        }
        let kept = Arc::new(Mutex::new(None));
        let granted = Arc::downgrade(&kept);
        *lock(&self.granted) = Weak::clone(&granted);
        let future = self.begun(py)?.1.ask();
        let converted = move |py: Python<'_>, answer| {
            if let Some(granted) = granted.upgrade() {
                *lock(&granted) = Some(answer);
            }
            Ok(py.None())
        };
        let (asked, call) = submit_call(py, future, kept, converted)?;
        *lock(&self.call) = Some(call);
        Ok(asked)
    }

    /// Whether the answer stands, now that the task runs: if so, `lease`. False: its time was over before; `ask` again.
    fn accept(&self, py: Python<'_>) -> PyResult<bool> {
        let granted = lock(&self.granted).upgrade();
        let answer = granted.and_then(|granted| lock(&granted).take());
        self.end_call();
        let Some(answer) = answer else { return Err(internal()) };
        let accepted = self.begun(py)?.1.accept(answer);
        let stands = accepted.is_some();
        *lock(&self.accepted) = accepted;
        Ok(stands)
    }

    /// The lease; None where one round was not enough.
    fn lease(&self, py: Python<'_>) -> PyResult<Option<Py<Lease>>> {
        self.over.store(true, Ordering::Relaxed);
        let Some(answer) = lock(&self.accepted).take() else { return Err(internal()) };
        let caller = &self.begun(py)?.0;
        let lease = caller.told(py, answer)?;
        lease.map(|lease| Lease::make(py, lease.into_handle(), caller)).transpose()
    }

    /// Ends it; what was granted meanwhile is given back.
    fn give_up(&self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some((caller, _)) = self.begun.get() {
            exit::note(&caller.lock);
        }
        self.end_call();
        let accepted = lock(&self.accepted).take();
        drop(accepted);
    }

    /// Whether it may come to nothing: one round.
    #[getter]
    fn once(&self) -> bool {
        self.wait.is_none()
    }

    /// Of an `async with`: what it holds. None: it has ended, and this is what it held.
    #[pyo3(signature = (lease: "Lease | None") -> "Lease | None")]
    fn hold(&self, lease: Option<Py<Lease>>) -> Option<Py<Lease>> {
        std::mem::replace(&mut *lock(&self.entered), lease)
    }

    /// What runs it as a coroutine, if that has begun.
    #[getter]
    fn steps(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        lock(&self.steps).as_ref().map(|steps| steps.clone_ref(py))
    }

    #[pyo3(signature = (steps: "object"))]
    fn set_steps(&self, steps: Py<PyAny>) {
        // Also of a task that is cancelled before its first step.
        self.awaited.store(true, Ordering::Relaxed);
        let old = lock(&self.steps).replace(steps);
        drop(old);
    }

    /// Nobody is to be told that it was never awaited.
    fn dismiss(&self) {
        self.awaited.store(true, Ordering::Relaxed);
        self.over.store(true, Ordering::Relaxed);
    }

    fn __repr__(&self) -> String {
        let verb = if self.once() { "atry_acquire" } else { "aacquire" };
        format!("<{verb}() of {}>", self.lock.get().shown())
    }

    fn __traverse__(&self, visit: pyo3::PyVisit<'_>) -> Result<(), pyo3::PyTraverseError> {
        visit.call(&self.lock)?;
        if let Ok(entered) = self.entered.try_lock() {
            visit.call(&*entered)?;
        }
        if let Ok(steps) = self.steps.try_lock() {
            visit.call(&*steps)?;
        }
        Ok(())
    }

    fn __clear__(&self) {
        let (entered, steps) = (lock(&self.entered).take(), lock(&self.steps).take());
        drop((entered, steps));
    }
}

impl Drop for Acquire {
    fn drop(&mut self) {
        if *self.awaited.get_mut() {
            return;
        }
        let text = format!(
            "{self_}, called at {at}, was never awaited: nothing is held",
            self_ = self.__repr__(),
            at = self.call_site
        );
        Python::try_attach(|py| warn_in_drop::<PyRuntimeWarning>(py, &text));
    }
}
