//! Where a lease was acquired, for warnings.

use pyo3::intern;
use pyo3::prelude::*;

/// Where a lease was acquired.
#[derive(Clone)]
pub(crate) struct Place {
    file: String,
    line: u32,
}

impl Place {
    pub(crate) fn of(frame: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = frame.py();
        let code = frame.getattr(intern!(py, "f_code"))?;
        let file = code.getattr(intern!(py, "co_filename"))?.extract()?;
        let line: Option<u32> = frame.getattr(intern!(py, "f_lineno"))?.extract()?;
        Ok(Self { file, line: line.unwrap_or(0) })
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}
