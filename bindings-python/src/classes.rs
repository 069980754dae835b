//! Creates classes when the package is imported, not at their first use.
//!
//! A fork during the first use would leave the child with a class that is never completed. `once` does the same for
//! values.

use pyo3::prelude::*;

/// Creates the classes, and imports those of errors.
#[pyfunction]
#[pyo3(name = "_make_classes", signature = () -> "None")]
pub(crate) fn make(py: Python<'_>) -> PyResult<()> {
    crate::lock::exit_stack::make_class(py);
    crate::lease::make_classes(py);
    crate::callbacks::make_classes(py);
    crate::runtime::make_classes(py)?;
    crate::errors::import_classes(py)
}
