//! The callbacks that a future calls when it is done. One of them resumes the task that awaits it.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3::{PyTraverseError, PyVisit};

use crate::once_cell::{Once, intern};
use crate::runtime::interpreter_end::Inside;
use crate::runtime::origin::copy_context;

/// A callback of a future.
pub(super) struct DoneCallback {
    function: Py<PyAny>,
    context: Option<Py<PyAny>>,
    /// Whether it resumes a task of asyncio, which handles every exception of its code.
    is_task: bool,
}

impl DoneCallback {
    /// Creates a callback from the arguments of `add_done_callback`. Without a context it runs in a copy of the current
    /// one.
    pub(super) fn new(
        py: Python<'_>,
        function: Py<PyAny>,
        context: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let owner = function.bind(py).getattr_opt(intern!(py, "__self__"))?;
        let is_task =
            context.is_some() && owner.map_or(Ok(false), |owner| owner.is_instance(task(py)?))?;
        let context = match context {
            None => Some(copy_context(py)?),
            context => context,
        };
        Ok(Self { function, context, is_task })
    }

    /// Returns the functions of these callbacks.
    pub(super) fn functions(callbacks: &[Self], py: Python<'_>) -> Vec<Py<PyAny>> {
        callbacks.iter().map(|callback| callback.function.clone_ref(py)).collect()
    }

    /// Removes and returns the callbacks with one of these functions.
    pub(super) fn remove(callbacks: &mut Vec<Self>, functions: &[Py<PyAny>]) -> Vec<Self> {
        callbacks
            .extract_if(.., |callback| functions.iter().any(|one| one.is(&callback.function)))
            .collect()
    }

    /// Calls it in the next iteration of the loop.
    pub(super) fn call_soon(
        &self,
        event_loop: &Bound<'_, PyAny>,
        future: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let py = future.py();
        let options = PyDict::new(py);
        options.set_item(intern!(py, "context"), &self.context)?;
        let call_soon = event_loop.getattr(intern!(py, "call_soon"))?;
        call_soon.call((&self.function, future), Some(&options)).map(drop)
    }

    /// Calls it immediately if it resumes a task, otherwise in the next iteration of the loop. Raises only exceptions
    /// that end the loop.
    pub(super) fn call(
        &self,
        event_loop: &Bound<'_, PyAny>,
        future: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let py = future.py();
        let Some(context) = self.context.as_ref().filter(|_| self.is_task) else {
            return self.call_soon(event_loop, future);
        };
        if nests(py)? {
            return self.call_soon(event_loop, future);
        }
        let Some(_inside) = Inside::enter() else {
            return self.call_soon(event_loop, future);
        };
        match context.call_method1(py, intern!(py, "run"), (&self.function, future)) {
            // Another task is in the middle of a step, because it runs a nested loop.
            Err(error) if error.is_instance_of::<PyRuntimeError>(py) => {
                self.call_soon(event_loop, future)
            }
            called => called.map(drop),
        }
    }

    /// For the garbage collector.
    pub(super) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.function)?;
        visit.call(&self.context)
    }
}

/// Returns asyncio's own class of tasks.
fn task(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static TASK: Once<Py<PyAny>> = Once::new();
    TASK.import(py, "_asyncio", "Task")
}

/// Whether a task may run a nested loop within one of its steps, as with nest_asyncio, which uses another task class.
///
/// A loop that runs within our callback cannot call the callback again, so it would never read the awaited reply.
fn nests(py: Python<'_>) -> PyResult<bool> {
    static ASYNCIO: Once<Py<PyAny>> = Once::new();
    let asyncio = ASYNCIO.get_or_try_init(py, || Ok(py.import("asyncio")?.into_any().unbind()))?;
    Ok(!asyncio.bind(py).getattr(intern!(py, "Task"))?.is(task(py)?))
}

/// Returns those of `functions` that are equal to this one.
pub(super) fn equal(functions: Vec<Py<PyAny>>, to: &Bound<'_, PyAny>) -> PyResult<Vec<Py<PyAny>>> {
    let mut equal = Vec::new();
    for function in functions {
        if function.bind(to.py()).eq(to)? {
            equal.push(function);
        }
    }
    Ok(equal)
}
