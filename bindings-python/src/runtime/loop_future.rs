//! The future that an asyncio task awaits. It resumes the task as soon as the event loop has read the reply.
//!
//! asyncio's own future resumes the task one loop iteration later, which costs more than the rest of the call. This one
//! has every method that asyncio requires of a future that a task awaits, or that is passed to `gather`, `shield` or
//! `wait`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::{PyRuntimeError, PyStopIteration};
use pyo3::prelude::*;

use super::done_callback::{DoneCallback, equal};
use super::future_outcome::{Outcome, pending, report_unretrieved};
use super::lock;
use crate::once_cell::{Once, intern};

/// The future of a call.
#[pyclass(frozen, weakref, module = "redlock", name = "_LoopFuture")]
pub(super) struct LoopFuture {
    event_loop: Py<PyAny>,
    state: Mutex<State>,
    /// Tells a task that this object is a future that it may await.
    blocking: AtomicBool,
    /// Whether it failed and its exception was not retrieved.
    unseen: AtomicBool,
}

#[derive(Default)]
struct State {
    outcome: Option<Outcome>,
    callbacks: Vec<DoneCallback>,
}

impl LoopFuture {
    /// Creates a future of this loop.
    pub(super) fn make<'py>(event_loop: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Self>> {
        let (state, blocking, unseen) = Default::default();
        let py = event_loop.py();
        Bound::new(py, Self { event_loop: event_loop.clone().unbind(), state, blocking, unseen })
    }

    /// Whether tasks of this loop can await this future. They must be asyncio's own tasks. In debug mode, the loop
    /// measures each of its steps, which this future would bypass.
    pub(super) fn suits(event_loop: &Bound<'_, PyAny>) -> PyResult<bool> {
        static FUTURE: Once<Py<PyAny>> = Once::new();
        let py = event_loop.py();
        if !event_loop.hasattr(intern!(py, "get_debug"))? {
            return Ok(false);
        }
        let theirs = event_loop.call_method0(intern!(py, "create_future"))?;
        let plain = theirs.get_type().is(FUTURE.import(py, "asyncio", "Future")?);
        Ok(plain && !event_loop.call_method0(intern!(py, "get_debug"))?.is_truthy()?)
    }

    pub(super) fn is_done(&self) -> bool {
        lock(&self.state).outcome.is_some()
    }

    /// Sets the result, and resumes the task that awaits it. Called in a callback of the loop, where no task runs.
    ///
    /// Raises only exceptions that end the loop.
    pub(super) fn settle(slf: &Bound<'_, Self>, answer: PyResult<Py<PyAny>>) -> PyResult<()> {
        let (me, event_loop) = (slf.get(), slf.get().event_loop.bind(slf.py()));
        me.unseen.store(answer.is_err(), Ordering::Relaxed);
        let mut callbacks = me.set_outcome(Outcome::from_result(slf.py(), answer)).into_iter();
        let first = callbacks.next();
        callbacks.try_for_each(|callback| callback.call_soon(event_loop, slf))?;
        first.map_or(Ok(()), |first| first.call(event_loop, slf))
    }

    /// Stores the outcome. Returns the callbacks to call.
    fn set_outcome(&self, outcome: Outcome) -> Vec<DoneCallback> {
        let mut state = lock(&self.state);
        state.outcome = Some(outcome);
        std::mem::take(&mut state.callbacks)
    }

    /// The result, or `None` while it is pending.
    fn outcome(&self, py: Python<'_>) -> Option<Outcome> {
        lock(&self.state).outcome.as_ref().map(|outcome| outcome.clone_ref(py))
    }

    /// Returns the result and marks its exception as retrieved.
    fn take_outcome(&self, py: Python<'_>) -> Option<PyResult<Py<PyAny>>> {
        let outcome = self.outcome(py)?;
        self.unseen.store(false, Ordering::Relaxed);
        Some(outcome.get(py))
    }
}

#[pymethods]
impl LoopFuture {
    fn get_loop(&self, py: Python<'_>) -> Py<PyAny> {
        self.event_loop.clone_ref(py)
    }

    #[getter]
    fn _loop(&self, py: Python<'_>) -> Py<PyAny> {
        self.get_loop(py)
    }

    #[getter]
    fn _asyncio_future_blocking(&self) -> bool {
        self.blocking.load(Ordering::Relaxed)
    }

    #[setter(_asyncio_future_blocking)]
    fn set_blocking(&self, blocking: bool) {
        self.blocking.store(blocking, Ordering::Relaxed);
    }

    fn done(&self) -> bool {
        self.is_done()
    }

    fn cancelled(&self) -> bool {
        matches!(lock(&self.state).outcome, Some(Outcome::Cancelled(_)))
    }

    fn result(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.take_outcome(py).unwrap_or_else(|| Err(pending(py)))
    }

    fn exception(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let failed = matches!(lock(&self.state).outcome, Some(Outcome::Error(_)));
        match self.result(py) {
            Err(error) if failed => Ok(Some(error.into_value(py).into_any())),
            result => result.map(|_| None),
        }
    }

    #[pyo3(signature = (function, *, context = None))]
    fn add_done_callback(
        slf: &Bound<'_, Self>,
        function: Py<PyAny>,
        context: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let callback = DoneCallback::new(slf.py(), function, context)?;
        let mut state = lock(&slf.get().state);
        if state.outcome.is_none() {
            state.callbacks.push(callback);
            return Ok(());
        }
        drop(state);
        callback.call_soon(slf.get().event_loop.bind(slf.py()), slf)
    }

    fn remove_done_callback(&self, function: &Bound<'_, PyAny>) -> PyResult<usize> {
        let functions = DoneCallback::functions(&lock(&self.state).callbacks, function.py());
        // Outside of the lock, because comparing or dropping callbacks may run user code.
        let equal = equal(functions, function)?;
        let removed = DoneCallback::remove(&mut lock(&self.state).callbacks, &equal);
        Ok(removed.len())
    }

    #[pyo3(signature = (msg = None))]
    fn cancel(slf: &Bound<'_, Self>, msg: Option<Py<PyAny>>) -> PyResult<bool> {
        let me = slf.get();
        if me.is_done() {
            return Ok(false);
        }
        let callbacks = me.set_outcome(Outcome::Cancelled(msg.unwrap_or_else(|| slf.py().None())));
        // A task may cancel the future during one of its steps, so the callbacks are scheduled.
        let event_loop = me.event_loop.bind(slf.py());
        callbacks.into_iter().try_for_each(|callback| callback.call_soon(event_loop, slf))?;
        Ok(true)
    }

    /// Required by `gather`.
    #[getter]
    fn _cancel_message(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        match self.outcome(py) {
            Some(Outcome::Cancelled(message)) => Some(message),
            _ => None,
        }
    }

    fn _make_cancelled_error<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.outcome(py).ok_or_else(|| pending(py))?.cancellation(py)
    }

    fn __repr__(&self) -> String {
        format!(
            "<redlock._LoopFuture {}>",
            lock(&self.state).outcome.as_ref().map_or("pending", Outcome::state)
        )
    }

    fn __await__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(slf: &Bound<'_, Self>) -> PyResult<Option<Py<Self>>> {
        let (py, me) = (slf.py(), slf.get());
        match me.take_outcome(py).transpose()? {
            // Same result, but cheaper.
            Some(result) if result.is_none(py) => Ok(None),
            Some(result) => Err(PyStopIteration::new_err((result,))),
            None if me.blocking.swap(true, Ordering::Relaxed) => {
                Err(PyRuntimeError::new_err("await wasn't used with future"))
            }
            None => Ok(Some(slf.clone().unbind())),
        }
    }

    fn __traverse__(&self, visit: pyo3::PyVisit<'_>) -> Result<(), pyo3::PyTraverseError> {
        visit.call(&self.event_loop)?;
        let Ok(state) = self.state.try_lock() else { return Ok(()) };
        state.callbacks.iter().try_for_each(|callback| callback.traverse(&visit))?;
        state.outcome.as_ref().map_or(Ok(()), |outcome| outcome.traverse(&visit))
    }

    fn __clear__(&self) {
        let callbacks = std::mem::take(&mut lock(&self.state).callbacks);
        drop(callbacks);
    }
}

/// Reports an exception that was never retrieved to the loop, as asyncio's own futures do.
impl Drop for LoopFuture {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Some(Outcome::Error(error)) = state.outcome.take_if(|_| *self.unseen.get_mut()) else {
            return;
        };
        Python::try_attach(|py| {
            // Another exception may be pending here.
            let current = PyErr::take(py);
            if let Err(error) = report_unretrieved(self.event_loop.bind(py), &error) {
                error.write_unraisable(py, None);
            }
            if let Some(current) = current {
                current.restore(py);
            }
        });
    }
}

pub(super) fn make_class(py: Python<'_>) {
    drop(py.get_type::<LoopFuture>());
}
