//! Values that are created once, like pyo3's `PyOnceLock` and `intern!`, but without blocking.
//!
//! pyo3 releases the GIL while it creates the value. A fork at that time leaves the child with a cell that is never
//! filled, and every thread that reads it hangs.

use std::sync::OnceLock;

use pyo3::PyTypeCheck;
use pyo3::prelude::*;
use pyo3::types::PyString;

/// A value that is created at the first use. If two threads create it at the same time, the first value is kept.
pub(crate) struct Once<T>(OnceLock<T>);

impl<T> Once<T> {
    /// Creates an empty cell.
    pub(crate) const fn new() -> Self {
        Self(OnceLock::new())
    }

    /// Returns the value, if it exists.
    pub(crate) fn get(&self, _: Python<'_>) -> Option<&T> {
        self.0.get()
    }

    /// Returns the value, and creates it if necessary.
    pub(crate) fn get_or_try_init(
        &self,
        _: Python<'_>,
        make: impl FnOnce() -> PyResult<T>,
    ) -> PyResult<&T> {
        if let Some(value) = self.0.get() {
            return Ok(value);
        }
        let value = make()?;
        // No call into Python here, so the GIL is not released. A fork finds the cell either filled or empty.
        Ok(self.0.get_or_init(|| value))
    }

    /// Sets the value, unless there is one.
    pub(crate) fn set(&self, _: Python<'_>, value: T) {
        let _ = self.0.set(value);
    }
}

impl<T: PyTypeCheck> Once<Py<T>> {
    /// Returns an attribute of a module.
    pub(crate) fn import<'py>(
        &self,
        py: Python<'py>,
        module: &str,
        name: &str,
    ) -> PyResult<&Bound<'py, T>> {
        let found = || Ok(py.import(module)?.getattr(name)?.cast_into::<T>()?.unbind());
        Ok(self.get_or_try_init(py, found)?.bind(py))
    }
}

impl Once<Py<PyString>> {
    /// Returns an interned string, which Python compares by address.
    pub(crate) fn text<'py>(&self, py: Python<'py>, text: &str) -> &Bound<'py, PyString> {
        self.0.get().map_or_else(
            || {
                let made = PyString::intern(py, text).unbind();
                self.0.get_or_init(|| made).bind(py)
            },
            |made| made.bind(py),
        )
    }
}

/// A Python string that is created once for each use in the source.
macro_rules! intern {
    ($py:expr, $text:expr) => {{
        static TEXT: $crate::once_cell::Once<pyo3::Py<pyo3::types::PyString>> =
            $crate::once_cell::Once::new();
        TEXT.text($py, $text)
    }};
}

pub(crate) use intern;
