//! What a future comes to, and what is raised of it.

use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::once::Once;

/// What a future has come to.
pub(super) enum Outcome {
    Result(Py<PyAny>),
    /// As an object: the collector must see what it holds, the frames that it went through.
    Error(Py<PyBaseException>),
    /// With what `cancel` was given.
    Cancelled(Py<PyAny>),
}

impl Outcome {
    /// What a call came to.
    pub(super) fn of(py: Python<'_>, answer: PyResult<Py<PyAny>>) -> Self {
        answer.map_or_else(|error| Self::Error(error.into_value(py)), Self::Result)
    }

    /// The same: what is made of it takes calls into Python, which no lock is held across.
    pub(super) fn clone_ref(&self, py: Python<'_>) -> Self {
        match self {
            Self::Result(result) => Self::Result(result.clone_ref(py)),
            Self::Error(error) => Self::Error(error.clone_ref(py)),
            Self::Cancelled(message) => Self::Cancelled(message.clone_ref(py)),
        }
    }

    /// For the collector.
    pub(super) fn traverse(&self, visit: &pyo3::PyVisit<'_>) -> Result<(), pyo3::PyTraverseError> {
        match self {
            Self::Result(kept) | Self::Cancelled(kept) => visit.call(kept),
            Self::Error(error) => visit.call(error),
        }
    }

    /// As asyncio calls it.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Result(_) | Self::Error(_) => "finished",
            Self::Cancelled(_) => "cancelled",
        }
    }

    /// The result, or what is raised in its place.
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
pub(super) fn tell(event_loop: &Bound<'_, PyAny>, error: &Py<PyBaseException>) -> PyResult<()> {
    let py = event_loop.py();
    let about = PyDict::new(py);
    about.set_item("message", "Future exception was never retrieved")?;
    about.set_item("exception", error)?;
    event_loop.call_method1("call_exception_handler", (about,)).map(drop)
}
