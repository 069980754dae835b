//! Converts errors of the core to Python exceptions. Only this module knows the names of the classes.

use pyo3::exceptions::{PyException, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple, PyType};
use redlock::{Error, ErrorKind, ffi};

use crate::once_cell::intern;

mod classes {
    pyo3::import_exception!(redlock.errors, LockError);
    pyo3::import_exception!(redlock.errors, LockTimeout);
    pyo3::import_exception!(redlock.errors, LockLost);
    pyo3::import_exception!(redlock.errors, LockReleased);
    pyo3::import_exception!(redlock.errors, QuorumUnavailable);
    pyo3::import_exception!(redlock.errors, InvalidOption);
    pyo3::import_exception!(redlock.errors, Unsupported);
    pyo3::import_exception!(redlock.errors, ClientClosed);
}

/// Imports the classes, so that no later call waits for the import.
pub(crate) fn import_classes(py: Python<'_>) -> PyResult<()> {
    drop((py.get_type::<classes::LockError>(), py.get_type::<classes::LockTimeout>()));
    drop((py.get_type::<classes::LockLost>(), py.get_type::<classes::QuorumUnavailable>()));
    drop((py.get_type::<classes::InvalidOption>(), py.get_type::<classes::ClientClosed>()));
    drop((py.get_type::<classes::LockReleased>(), py.get_type::<classes::Unsupported>()));
    node_report(py).map(drop)
}

/// Converts an error of the core to an exception.
pub(crate) fn check<T>(py: Python<'_>, result: Result<T, Error>) -> PyResult<T> {
    result.map_err(|error| exception(py, &error).map_or_else(|failure| failure, PyErr::from_value))
}

/// Returns the exception for an error of the core.
pub(crate) fn exception<'py>(py: Python<'py>, error: &Error) -> PyResult<Bound<'py, PyAny>> {
    let nodes = error
        .nodes()
        .iter()
        .map(|node| node_report(py)?.call1((&node.url, node.state.as_str(), node.error.as_deref())))
        .collect::<PyResult<Vec<_>>>()?;
    let fields = PyDict::new(py);
    fields.set_item("resource", error.resource())?;
    fields.set_item("waited", error.waited().map(|time| time.as_secs_f64()))?;
    fields.set_item("remaining", error.remaining().map(|time| time.as_secs_f64()))?;
    fields.set_item("holder", error.holder())?;
    fields.set_item("reason", error.reason())?;
    fields.set_item("nodes", PyTuple::new(py, nodes)?)?;
    class(py, error.kind()).call((error.to_string(),), Some(&fields))
}

/// The exception for a panic. The panic message was printed to stderr.
pub(crate) fn internal() -> PyErr {
    let has_lost_some = || ffi::descriptor_generation() != ffi::fork_generation();
    let text = if ffi::has_lost_descriptors() || has_lost_some() {
        "redlock: the program closed descriptors of redlock (os.closerange), which ended this call. The next call \
         opens new ones"
    } else {
        "redlock: an internal error ended this call; please report it"
    };
    classes::LockError::new_err((text,))
}

/// The error for a resource that the system cannot provide and without which no node can be reached.
pub(crate) fn scarce(what: &str, error: &std::io::Error) -> PyErr {
    classes::QuorumUnavailable::new_err((format!("redlock: {what}: {error}"),))
}

/// The error for an invalid value or argument.
pub(crate) fn invalid(message: impl Into<String>) -> PyErr {
    classes::InvalidOption::new_err((message.into(),))
}

/// The TypeError of a `with` over an object for `async with` only.
pub(crate) fn not_async(object: &str, instead: &str) -> PyErr {
    PyTypeError::new_err(format!(
        "{object} does not support 'with'. Use '{instead}', or as_sync() in blocking code"
    ))
}

/// The TypeError of an `async with` over an object for `with` only.
pub(crate) fn not_sync(object: &str, instead: &str) -> PyErr {
    PyTypeError::new_err(format!("{object} does not support 'async with'. Use {instead}"))
}

/// Ends the `with` of a client whose shutdown failed.
#[pyfunction]
#[pyo3(name = "_conclude", signature = (problem: "redlock.errors.LockError", error: "BaseException | None") -> "None")]
pub(crate) fn conclude_client(problem: Bound<'_, PyAny>, error: &Bound<'_, PyAny>) -> PyResult<()> {
    conclude(problem, error, || Some(String::new()))
}

/// Ends a `with` whose release failed. An exception of the body takes precedence. `omitted` returns the end of the log
/// record, or `None` if there have been enough of them.
pub(crate) fn conclude(
    problem: Bound<'_, PyAny>,
    error: &Bound<'_, PyAny>,
    omitted: impl FnOnce() -> Option<String>,
) -> PyResult<()> {
    let py = problem.py();
    if problem.is_instance_of::<classes::QuorumUnavailable>() {
        // The body has done its work, and the problem tells what becomes of the keys.
        let Some(omitted) = omitted() else { return Ok(()) };
        let text = "not released: %s%s";
        let logging = py.import("logging")?;
        let logger = logging.call_method1("getLogger", ("redlock.lease",))?;
        logger.call_method1("warning", (text, problem, omitted)).map(drop)
    } else if error.is_none() {
        Err(PyErr::from_value(problem))
    } else if error.is_instance_of::<classes::LockLost>() {
        Ok(())
    } else {
        let note = format!("redlock: {}", problem.str()?.to_string_lossy());
        error.call_method1(intern!(py, "add_note"), (note,)).map(drop)
    }
}

fn class(py: Python<'_>, kind: ErrorKind) -> Bound<'_, PyType> {
    match kind {
        ErrorKind::Timeout => py.get_type::<classes::LockTimeout>(),
        ErrorKind::Lost => py.get_type::<classes::LockLost>(),
        ErrorKind::Released => py.get_type::<classes::LockReleased>(),
        ErrorKind::Unavailable => py.get_type::<classes::QuorumUnavailable>(),
        ErrorKind::Invalid => py.get_type::<classes::InvalidOption>(),
        ErrorKind::Unsupported => py.get_type::<classes::Unsupported>(),
        ErrorKind::Closed => py.get_type::<classes::ClientClosed>(),
        _ => py.get_type::<classes::LockError>(),
    }
}

fn node_report(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static CLASS: crate::once_cell::Once<Py<PyType>> = crate::once_cell::Once::new();
    CLASS.import(py, "redlock.errors", "NodeReport")
}

/// Returns the result of a call on a value of any class. An error of the value counts as "not supported" and returns
/// `None`. A KeyboardInterrupt is passed on.
pub(crate) fn tried<T>(py: Python<'_>, answer: PyResult<T>) -> PyResult<Option<T>> {
    match answer {
        Err(error) if !error.is_instance_of::<PyException>(py) => Err(error),
        answer => Ok(answer.ok()),
    }
}
