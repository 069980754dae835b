//! What `redlock.testing` needs of the core, and no program.

use pyo3::prelude::*;
use redlock::ffi;

/// Has the node `memory://name` fail every command, or answer again.
#[pyfunction]
#[pyo3(name = "_fail_memory", signature = (name: "str", down: "bool") -> "None")]
pub(crate) fn fail_memory(name: &str, down: bool) {
    ffi::fail_memory(name, down);
}
