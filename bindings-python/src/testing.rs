//! Functions for `redlock.testing` only.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pyo3::prelude::*;
use redlock::ffi;
use redlock::ffi::{Clock, SystemClock};

use crate::args::Seconds;
use crate::client::Redlock;
use crate::runtime::lock;
use crate::runtime::spawn::{Call, spawn_call};
use crate::runtime::wait::wait;
use crate::source::Numbered;

/// Makes the node `memory://name` fail every command, or reply again.
#[pyfunction]
#[pyo3(name = "_fail_memory", signature = (name: "str", down: "bool") -> "None")]
pub(crate) fn fail_memory(name: &str, down: bool) {
    ffi::fail_memory(name, down);
}

/// Advances the clock of the clients whose only node is `memory://name`.
#[pyfunction]
#[pyo3(name = "_advance_memory", signature = (name: "str", seconds: "float | datetime.timedelta") -> "None")]
pub(crate) fn advance_memory(name: &str, seconds: Seconds) {
    ffi::advance_memory(name, seconds.0);
}

/// Advances that clock from one deadline to the next, and waits for the renewals and losses on the way.
#[pyfunction]
#[pyo3(name = "_step_memory", signature = (name: "str", seconds: "float | datetime.timedelta") -> "None")]
pub(crate) fn step_memory(py: Python<'_>, name: &str, seconds: Seconds) -> PyResult<()> {
    wait(py, ffi::step_memory(name, seconds.0), |_| Ok(()))
}

/// An advance from one deadline to the next, for a coroutine that may stop it. Dropping this also stops it.
#[pyclass(frozen, name = "_Steps", module = "redlock")]
pub(crate) struct Steps(Mutex<Option<Call>>);

#[pymethods]
impl Steps {
    #[new]
    #[pyo3(signature = ())]
    fn new() -> Self {
        Self(Mutex::default())
    }

    /// Begins. Returns an asyncio future that is done at the end.
    #[pyo3(signature = (name: "str", seconds: "float | datetime.timedelta") -> "asyncio.Future[None]")]
    fn start<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        seconds: Seconds,
    ) -> PyResult<Bound<'py, PyAny>> {
        let steps = ffi::step_memory(name, seconds.0);
        let (loop_future, call) = spawn_call(py, steps, Arc::new(()), |py, ()| Ok(py.None()))?;
        *lock(&self.0) = Some(call);
        Ok(loop_future)
    }

    /// Takes no further step.
    fn stop(&self) {
        drop(lock(&self.0).take());
    }
}

/// Replaces the default client and its used flag. Returns the previous values.
#[pyfunction]
#[pyo3(name = "_swap_default", signature = (other: "tuple[Redlock, bool] | None") -> "tuple[Redlock, bool] | None")]
pub(crate) fn swap_default(other: Option<(Py<Redlock>, bool)>) -> Option<(Redlock, bool)> {
    let other = other.map(|(client, used)| (client.get().client.clone(), used));
    Numbered::swap_default(other).map(|(client, used)| (Redlock { client }, used))
}

/// Returns the seconds of a clock that no test library replaces.
#[pyfunction]
#[pyo3(name = "_now", signature = () -> "float")]
pub(crate) fn now() -> f64 {
    let nanos = u64::try_from(SystemClock.now().as_nanos());
    Duration::from_nanos(nanos.unwrap_or(u64::MAX)).as_secs_f64()
}
