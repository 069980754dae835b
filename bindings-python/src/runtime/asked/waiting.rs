//! The callbacks that are called when a future is done.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3::{PyTraverseError, PyVisit};

use crate::once::{Once, intern};
use crate::runtime::ending::Inside;

/// A callback of a future.
pub(super) struct Waiting {
    function: Py<PyAny>,
    context: Option<Py<PyAny>>,
    /// A task: it sees to whatever is raised in it.
    is_task: bool,
}

impl Waiting {
    /// As `add_done_callback` is given it.
    pub(super) fn of(
        py: Python<'_>,
        function: Py<PyAny>,
        context: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        static COPY: Once<Py<PyAny>> = Once::new();
        let of = function.bind(py).getattr_opt(intern!(py, "__self__"))?;
        let is_task = context.is_some() && of.map_or(Ok(false), |of| of.is_instance(task(py)?))?;
        let context = match context {
            None => Some(COPY.import(py, "contextvars", "copy_context")?.call0()?.unbind()),
            context => context,
        };
        Ok(Self { function, context, is_task })
    }

    /// What these call.
    pub(super) fn functions(of: &[Self], py: Python<'_>) -> Vec<Py<PyAny>> {
        of.iter().map(|waiting| waiting.function.clone_ref(py)).collect()
    }

    /// Takes those out that call one of these.
    pub(super) fn take(out_of: &mut Vec<Self>, functions: &[Py<PyAny>]) -> Vec<Self> {
        out_of
            .extract_if(.., |waiting| functions.iter().any(|gone| gone.is(&waiting.function)))
            .collect()
    }

    /// In the loop's next turn.
    pub(super) fn call_soon(
        &self,
        event_loop: &Bound<'_, PyAny>,
        of: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let py = of.py();
        let options = PyDict::new(py);
        options.set_item(intern!(py, "context"), &self.context)?;
        let call_soon = event_loop.getattr(intern!(py, "call_soon"))?;
        call_soon.call((&self.function, of), Some(&options)).map(drop)
    }

    /// Here and now, if it is a task. Raises what is to end the loop.
    pub(super) fn call(
        &self,
        event_loop: &Bound<'_, PyAny>,
        of: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let py = of.py();
        let Some(context) = self.context.as_ref().filter(|_| self.is_task) else {
            return self.call_soon(event_loop, of);
        };
        if nests(py)? {
            return self.call_soon(event_loop, of);
        }
        let Some(_inside) = Inside::begin() else {
            return self.call_soon(event_loop, of);
        };
        match context.call_method1(py, intern!(py, "run"), (&self.function, of)) {
            // Another task runs here, and it runs a nested loop.
            Err(error) if error.is_instance_of::<PyRuntimeError>(py) => {
                self.call_soon(event_loop, of)
            }
            called => called.map(drop),
        }
    }

    /// For the garbage collector: what it keeps.
    pub(super) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.function)?;
        visit.call(&self.context)
    }
}

/// asyncio's own class of tasks.
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

/// Those of `functions` that are equal to this one.
pub(super) fn equal(functions: Vec<Py<PyAny>>, to: &Bound<'_, PyAny>) -> PyResult<Vec<Py<PyAny>>> {
    let mut equal = Vec::new();
    for function in functions {
        if function.bind(to.py()).eq(to)? {
            equal.push(function);
        }
    }
    Ok(equal)
}
