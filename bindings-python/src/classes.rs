//! Classes that would be made at first use are made when the package is imported: a fork in the midst of that leaves the child
//! one that a thread of its parent is making for ever. `once` is the same for values.

use pyo3::prelude::*;

/// Makes them, and imports those of errors.
#[pyfunction]
#[pyo3(name = "_make_classes", signature = () -> "None")]
pub(crate) fn make(py: Python<'_>) -> PyResult<()> {
    crate::lease::make_classes(py);
    crate::credentials::make_classes(py);
    crate::runtime::make_classes(py)?;
    crate::errors::import_classes(py)
}
