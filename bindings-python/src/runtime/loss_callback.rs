//! A callback for the loss of a lease. It runs in the context of the code that registered it. A coroutine function runs
//! as a task. An unregistered callback is not called.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PySet};
use pyo3::{PyTraverseError, PyVisit};

use crate::once_cell::{Once, intern};
use crate::runtime::origin::copy_context;

/// A function that receives the error.
pub(crate) struct Callback {
    function: Py<PyAny>,
    /// The context of the code that registered it. `None` if it needs no context variables.
    context: Option<Py<PyAny>>,
    mark: Mark,
}

/// Identifies a callback, so that it can be unregistered.
#[derive(Clone, Default)]
pub(crate) struct Mark(Arc<AtomicBool>);

impl Mark {
    /// Unregisters the callback.
    pub(crate) fn forget(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn forgotten(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl Callback {
    /// Creates a callback of this library, which needs no context.
    pub(crate) fn plain(function: Py<PyAny>) -> Self {
        Self { function, context: None, mark: Mark::default() }
    }

    /// Creates a callback with a copy of the current context.
    pub(crate) fn here(py: Python<'_>, function: Py<PyAny>) -> PyResult<Self> {
        Ok(Self { function, context: Some(copy_context(py)?), mark: Mark::default() })
    }

    /// Returns its mark.
    pub(crate) fn mark(&self) -> Mark {
        self.mark.clone()
    }

    /// Whether it has this mark.
    pub(super) fn has(&self, mark: &Mark) -> bool {
        Arc::ptr_eq(&self.mark.0, &mark.0)
    }

    /// Calls it in the current thread.
    pub(super) fn call(&self, py: Python<'_>, error: Bound<'_, PyAny>) -> PyResult<()> {
        if self.mark.forgotten() {
            return Ok(());
        }
        let called = match &self.context {
            None => self.function.call1(py, (error,)),
            Some(context) => context.call_method1(py, intern!(py, "run"), (&self.function, error)),
        };
        called.map(drop)
    }

    /// Schedules the call on the loop, which reports any exception.
    pub(super) fn call_soon(
        &self,
        event_loop: &Bound<'_, PyAny>,
        error: Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let py = event_loop.py();
        let call_soon = event_loop.getattr(intern!(py, "call_soon"))?;
        let Some(context) = &self.context else {
            return call_soon.call1((&self.function, error)).map(drop);
        };
        let (function, mark) = (self.function.clone_ref(py), self.mark.clone());
        let event_loop = event_loop.clone().unbind();
        let scheduled = Scheduled { function, mark, event_loop };
        let options = PyDict::new(py);
        options.set_item(intern!(py, "context"), context)?;
        call_soon.call((scheduled, error), Some(&options)).map(drop)
    }

    /// For the garbage collector, in the owner of the callback.
    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.function)?;
        visit.call(&self.context)
    }
}

/// A callback that is scheduled on the loop, with its context. The garbage collector cannot clear it, because it must
/// be called.
#[pyclass(frozen, module = "redlock")]
struct Scheduled {
    function: Py<PyAny>,
    mark: Mark,
    event_loop: Py<PyAny>,
}

#[pymethods]
impl Scheduled {
    fn __call__(&self, py: Python<'_>, error: Bound<'_, PyAny>) -> PyResult<()> {
        static IS_COROUTINE: Once<Py<PyAny>> = Once::new();
        // An earlier callback may have unregistered it.
        if self.mark.forgotten() {
            return Ok(());
        }
        let result = self.function.bind(py).call1((error,))?;
        if !IS_COROUTINE.import(py, "asyncio", "iscoroutine")?.call1((&result,))?.is_truthy()? {
            return Ok(());
        }
        let task = self.event_loop.bind(py).call_method1(intern!(py, "create_task"), (result,))?;
        keep_alive(&task)
    }

    /// Shown when the loop reports its exception.
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.function.bind(py).repr()?.to_string_lossy().into_owned())
    }
}

pub(super) fn make_class(py: Python<'_>) {
    drop(py.get_type::<Scheduled>());
}

/// Keeps a task alive until it ends, because a loop has only weak references to its tasks.
fn keep_alive(task: &Bound<'_, PyAny>) -> PyResult<()> {
    static TASKS: Once<Py<PySet>> = Once::new();
    let py = task.py();
    let tasks = TASKS.get_or_try_init(py, || PySet::empty(py).map(Bound::unbind))?.bind(py);
    tasks.add(task)?;
    let discard = tasks.getattr(intern!(py, "discard"))?;
    task.call_method1(intern!(py, "add_done_callback"), (discard,)).map(drop)
}

/// Whether it is a coroutine function, whose coroutine needs a loop.
///
/// Does not import `inspect`. That takes long, and a fork during an import by another thread would leave the module
/// locked in the child.
pub(crate) fn is_coroutine_function(function: &Bound<'_, PyAny>) -> PyResult<bool> {
    static MODULES: Once<Py<PyAny>> = Once::new();
    let py = function.py();
    let modules = MODULES.import(py, "sys", "modules")?.cast::<PyDict>()?;
    let inspect = modules.get_item(intern!(py, "inspect"))?;
    let name = intern!(py, "iscoroutinefunction");
    // Absent while another thread imports the module.
    let asked = inspect.map_or(Ok(None), |inspect| inspect.getattr_opt(name))?;
    let is_one = |function: &Bound<'_, PyAny>| match &asked {
        Some(asked) => asked.call1((function,))?.is_truthy(),
        None => has_coroutine_flag(function),
    };
    // An object with an `async def __call__`.
    Ok(is_one(function)? || is_one(&function.get_type().getattr(intern!(py, "__call__"))?)?)
}

/// What `inspect.iscoroutinefunction` returns without its marks, which only a program with `inspect` sets.
fn has_coroutine_flag(function: &Bound<'_, PyAny>) -> PyResult<bool> {
    /// `inspect.CO_COROUTINE`.
    const COROUTINE: u32 = 0x80;
    let mut function = function.clone();
    loop {
        let inner = match function.get_type().fully_qualified_name()?.to_str()? {
            "method" => "__func__",
            "functools.partial" => "func",
            "function" => break,
            _ => return Ok(false),
        };
        function = function.getattr(inner)?;
    }
    let flags: u32 = function.getattr("__code__")?.getattr("co_flags")?.extract()?;
    Ok(flags & COROUTINE != 0)
}
