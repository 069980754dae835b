//! Functions for `redlock.testing` only.

use std::time::Duration;

use pyo3::prelude::*;
use redlock::ffi;
use redlock::ffi::{Clock, SystemClock};

use crate::args::Seconds;
use crate::client::Redlock;
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
