//! Lines of the program that calls us: where a lease was acquired, and where a warning belongs.

use pyo3::PyTypeInfo;
use pyo3::prelude::*;

use crate::once::{Once, intern};

/// Modules of this package, whose frames are nobody's program.
const OURS: [&str; 2] = ["redlock._asyncio", "redlock._decorator"];

/// Where a lease was acquired.
#[derive(Clone)]
pub(crate) struct CallSite {
    file: String,
    line: u32,
}

impl CallSite {
    /// The line that this frame is at.
    pub(crate) fn of(frame: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = frame.py();
        let code = frame.getattr(intern!(py, "f_code"))?;
        let file = code.getattr(intern!(py, "co_filename"))?.extract()?;
        let line: Option<u32> = frame.getattr(intern!(py, "f_lineno"))?.extract()?;
        Ok(Self { file, line: line.unwrap_or(0) })
    }
}

impl std::fmt::Display for CallSite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// The frame of the Python code that calls us: native code has none of its own.
pub(crate) fn frame(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    static GET_FRAME: Once<Py<PyAny>> = Once::new();
    GET_FRAME.import(py, "sys", "_getframe")?.call0()
}

/// The name of the module whose code a frame runs.
pub(crate) fn module<'py>(frame: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = frame.py();
    let globals = frame.getattr(intern!(py, "f_globals"))?;
    globals.call_method1(intern!(py, "get"), (intern!(py, "__name__"),))
}

/// Warns from where nothing can be raised: an object that goes.
pub(crate) fn warn_in_drop<C: PyTypeInfo>(py: Python<'_>, text: &str) {
    // We may be in the middle of somebody else's exception.
    let current = PyErr::take(py);
    let text = std::ffi::CString::new(text.replace('\0', "?")).unwrap_or_default();
    if let Err(error) = PyErr::warn(py, &py.get_type::<C>(), &text, 1) {
        error.write_unraisable(py, None);
    }
    if let Some(current) = current {
        current.restore(py);
    }
}

/// Warns at the first frame outside of this package.
pub(crate) fn warn<C: PyTypeInfo>(py: Python<'_>, text: &str) -> PyResult<()> {
    let (mut level, mut at) = (1, frame(py)?);
    loop {
        let module = module(&at)?;
        let before = at.getattr(intern!(py, "f_back"))?;
        if before.is_none() || !OURS.iter().any(|ours| module.eq(ours).unwrap_or(false)) {
            break;
        }
        (level, at) = (level + 1, before);
    }
    let text = std::ffi::CString::new(text.replace('\0', "?")).unwrap_or_default();
    PyErr::warn(py, &py.get_type::<C>(), &text, level)
}
