//! The command line `redlock`, for `python -m redlock` and the console script of the package.

use std::ffi::OsString;

use pyo3::prelude::*;

/// Runs the command line with these words, the first of which is the name of the program. Ends the process.
#[pyfunction]
#[pyo3(name = "_command_line", signature = (words: "list[str]") -> "typing.Never")]
pub(crate) fn command_line(py: Python<'_>, words: Vec<OsString>) {
    // The process may have to end by a signal, so nothing is left to do for Python.
    py.detach(|| redlock_cli::main(words).exit());
}
