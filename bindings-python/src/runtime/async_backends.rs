//! The async library that runs tasks here, which is asyncio or, once the program has imported it, trio.
//!
//! The Python code presents trio as an event loop. It registers itself here when the package is imported.

use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::once_cell::{Once, intern};

/// Returns the running trio as an event loop, or None.
static TRIO: Once<Py<PyAny>> = Once::new();

/// Sets the function that returns the running trio. It is called only after the program has imported trio.
#[pyfunction]
#[pyo3(name = "_set_trio", signature = (running: "collections.abc.Callable[[], object | None]") -> "None")]
pub(crate) fn set_trio(py: Python<'_>, running: Py<PyAny>) {
    TRIO.set(py, running);
}

/// Returns the trio that runs the calling task. Without trio it costs one dict lookup.
pub(crate) fn trio(py: Python<'_>) -> PyResult<Option<Bound<'_, PyAny>>> {
    static MODULES: Once<Py<PyAny>> = Once::new();
    let modules = MODULES.import(py, "sys", "modules")?.cast::<PyDict>()?;
    if !modules.contains(intern!(py, "trio"))? {
        return Ok(None);
    }
    let Some(ask) = TRIO.get(py) else { return Ok(None) };
    let found = ask.bind(py).call0()?;
    Ok((!found.is_none()).then_some(found))
}

/// Returns the event loop or trio that runs in this thread. Does not import asyncio.
pub(crate) fn running(py: Python<'_>) -> PyResult<Option<Bound<'_, PyAny>>> {
    match trio(py)? {
        None => asyncio(py),
        trio => Ok(trio),
    }
}

fn asyncio(py: Python<'_>) -> PyResult<Option<Bound<'_, PyAny>>> {
    static RUNNING: Once<Py<PyAny>> = Once::new();
    static MODULES: Once<Py<PyAny>> = Once::new();
    if RUNNING.get(py).is_none() {
        let modules = MODULES.import(py, "sys", "modules")?;
        if !modules.contains(intern!(py, "asyncio.events"))? {
            return Ok(None);
        }
    }
    let found = RUNNING.import(py, "asyncio.events", "_get_running_loop")?.call0()?;
    Ok((!found.is_none()).then_some(found))
}
