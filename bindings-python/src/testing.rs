//! What `redlock.testing` needs of the core, and no program.

use pyo3::prelude::*;
use redlock::ffi;

use crate::args::Seconds;

/// Has the node `memory://name` fail every command, or answer again.
#[pyfunction]
#[pyo3(name = "_fail_memory", signature = (name: "str", down: "bool") -> "None")]
pub(crate) fn fail_memory(name: &str, down: bool) {
    ffi::fail_memory(name, down);
}

/// Has so much time pass at once for the clients that have the node `memory://name` alone.
#[pyfunction]
#[pyo3(name = "_pass_memory_time", signature = (name: "str", seconds: "float | datetime.timedelta") -> "None")]
pub(crate) fn pass_memory_time(name: &str, seconds: Seconds) {
    ffi::pass_memory_time(name, seconds.0);
}
