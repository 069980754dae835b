//! Reports the outcome of each acquire to an observer, in the context of the caller. Tracing uses this.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pyo3::exceptions::PyException;
use pyo3::prelude::*;

use super::lock;

/// Called with the key, how long it took in seconds, the outcome, the first digits of the lease's token, and the label
/// of the holder.
static OBSERVER: Mutex<Option<Py<PyAny>>> = Mutex::new(None);
static OBSERVED: AtomicBool = AtomicBool::new(false);

/// Sets the function that is called after each acquire. None removes it.
#[pyfunction]
#[pyo3(name = "_observe_by", signature = (observer: "collections.abc.Callable[[str, float, str, str | None, str | None], object] | None") -> "None")]
pub(crate) fn observe_by(observer: Option<Py<PyAny>>) {
    OBSERVED.store(observer.is_some(), Ordering::Relaxed);
    let old = std::mem::replace(&mut *lock(&OBSERVER), observer);
    drop(old);
}

/// Calls the observer on the caller's thread and in its task. Its exceptions are not raised in the caller, except those
/// that end programs.
pub(crate) fn call_observer(
    py: Python<'_>,
    key: impl FnOnce() -> String,
    took: Duration,
    answer: &Result<Option<redlock::Lease>, redlock::Error>,
) -> PyResult<()> {
    if !OBSERVED.load(Ordering::Relaxed) {
        return Ok(());
    }
    let Some(observer) = lock(&OBSERVER).as_ref().map(|observer| observer.clone_ref(py)) else {
        return Ok(());
    };
    let (outcome, token, holder) = match answer {
        Ok(Some(lease)) => ("granted", lease.token().get(..8), None),
        Ok(None) => ("refused", None, None),
        Err(error) => (error.code(), None, error.holder()),
    };
    match observer.call1(py, (key(), took.as_secs_f64(), outcome, token, holder)) {
        Err(error) if error.is_instance_of::<PyException>(py) => error.write_unraisable(py, None),
        told => drop(told?),
    }
    Ok(())
}
