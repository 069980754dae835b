//! The outcome of a future, and the exceptions that it raises.

use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::once_cell::Once;

/// The outcome of a future.
pub(super) enum Outcome {
    Result(Py<PyAny>),
    /// A Python object, so that the garbage collector sees the frames in its traceback.
    Error(Py<PyBaseException>),
    /// The message that was passed to `cancel`.
    Cancelled(Py<PyAny>),
}

impl Outcome {
    /// Converts the result of a call.
    pub(super) fn from_result(py: Python<'_>, answer: PyResult<Py<PyAny>>) -> Self {
        answer.map_or_else(|error| Self::Error(error.into_value(py)), Self::Result)
    }

    /// Copies the outcome. Converting it calls Python code, so that must not happen under the lock of the future.
    pub(super) fn clone_ref(&self, py: Python<'_>) -> Self {
        match self {
            Self::Result(result) => Self::Result(result.clone_ref(py)),
            Self::Error(error) => Self::Error(error.clone_ref(py)),
            Self::Cancelled(message) => Self::Cancelled(message.clone_ref(py)),
        }
    }

    /// For the garbage collector.
    pub(super) fn traverse(&self, visit: &pyo3::PyVisit<'_>) -> Result<(), pyo3::PyTraverseError> {
        match self {
            Self::Result(kept) | Self::Cancelled(kept) => visit.call(kept),
            Self::Error(error) => visit.call(error),
        }
    }

    /// Returns the state as asyncio names it.
    pub(super) fn state(&self) -> &'static str {
        match self {
            Self::Result(_) | Self::Error(_) => "finished",
            Self::Cancelled(_) => "cancelled",
        }
    }

    /// Returns the result, or raises the error.
    pub(super) fn get(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self {
            Self::Result(result) => Ok(result),
            Self::Error(error) => Err(PyErr::from_value(error.into_bound(py).into_any())),
            Self::Cancelled(_) => Err(PyErr::from_value(self.cancellation(py)?)),
        }
    }

    /// The exception that a task awaiting it receives.
    pub(super) fn cancellation<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        static CANCELLED: Once<Py<PyAny>> = Once::new();
        let class = CANCELLED.import(py, "asyncio", "CancelledError")?;
        match self {
            Self::Cancelled(message) if !message.is_none(py) => class.call1((message,)),
            _ => class.call0(),
        }
    }
}

/// The error for reading the result of a pending future.
pub(super) fn pending(py: Python<'_>) -> PyErr {
    static INVALID: Once<Py<PyAny>> = Once::new();
    let invalid = INVALID.import(py, "asyncio", "InvalidStateError");
    let made = invalid.and_then(|class| class.call1(("Result is not ready.",)));
    made.map_or_else(|error| error, PyErr::from_value)
}

/// Reports an exception that was never retrieved to the loop.
pub(super) fn report_unretrieved(
    event_loop: &Bound<'_, PyAny>,
    error: &Py<PyBaseException>,
) -> PyResult<()> {
    let py = event_loop.py();
    let about = PyDict::new(py);
    about.set_item("message", "Future exception was never retrieved")?;
    about.set_item("exception", error)?;
    event_loop.call_method1("call_exception_handler", (about,)).map(drop)
}
