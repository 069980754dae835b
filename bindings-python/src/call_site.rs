//! Finds the calling line of the user's program, for leases and for warnings.

use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex};

use pyo3::PyTypeInfo;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyType};

use crate::errors::tried;
use crate::once_cell::{Once, intern};
pub(crate) use crate::runtime::origin::CallSite;
use crate::runtime::origin::Line;
use crate::runtime::{ByNumber, lock};

/// Modules of this package, whose frames do not belong to the user's program.
const OWN_MODULES: [&str; 3] = ["redlock._asyncio", "redlock._decorator", "redlock._once"];

/// The maximum number of known lines. A program that compiles code all the time would otherwise keep all of it.
const MAX_KNOWN: usize = 256;

/// The line of an instruction. The code object is kept, so that no other one gets its address.
struct Known {
    code: Py<PyAny>,
    instruction: i32,
    line: Arc<Line>,
}

/// The lines of earlier calls, because Python takes as long to find a line as for the rest of an acquire.
///
/// Locked with the GIL held and never across a call into Python: see `runtime`. Leases do not own code objects, because
/// they are dropped without the GIL.
static KNOWN_LINES: LazyLock<Mutex<ByNumber<Known>>> = LazyLock::new(Mutex::default);

impl Line {
    /// Returns the line of this instruction of a code object.
    fn at_instruction(code: &Bound<'_, PyAny>, instruction: i32) -> PyResult<Arc<Self>> {
        let number =
            (code.as_ptr() as u64) ^ u64::from(instruction.cast_unsigned()).rotate_left(48);
        let is = |known: &&Known| known.code.is(code) && known.instruction == instruction;
        let known = lock(&KNOWN_LINES).get(&number).filter(is).map(|known| Arc::clone(&known.line));
        if let Some(line) = known {
            return Ok(line);
        }
        let line = Arc::new(Self::found(code, instruction)?);
        let known = Known { code: code.clone().unbind(), instruction, line: Arc::clone(&line) };
        let old = {
            let mut all = lock(&KNOWN_LINES);
            let full = all.len() >= MAX_KNOWN;
            (full.then(|| std::mem::take(&mut *all)), all.insert(number, known))
        };
        drop(old);
        Ok(line)
    }

    fn found(code: &Bound<'_, PyAny>, instruction: i32) -> PyResult<Self> {
        let py = code.py();
        let file = code.getattr(intern!(py, "co_filename"))?;
        // A file name that is not UTF-8 contains surrogates.
        let file = file.cast::<PyString>()?.to_string_lossy().into_owned();
        let name = code.getattr(intern!(py, "co_name"))?;
        let function = name.cast::<PyString>()?.to_string_lossy().into_owned();
        let may_be_library = may_be_library(Path::new(&file));
        for range in code.call_method0(intern!(py, "co_lines"))?.try_iter()? {
            let (from, to, number): (i32, i32, Option<u32>) = range?.extract()?;
            if (from..to).contains(&instruction) {
                let number = number.unwrap_or(0);
                return Ok(Self { file, function, number, may_be_library });
            }
        }
        Ok(Self { file, function, number: 0, may_be_library })
    }
}

impl CallSite {
    /// Creates the call site of the program that calls us, itself or through this package.
    pub(crate) fn here(py: Python<'_>) -> PyResult<Self> {
        let frame = frame(py)?;
        Self::of_frame(&frame)?.of_program(&frame)
    }

    /// Creates the call site of this frame, which may be None.
    pub(crate) fn of_frame(frame: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = frame.py();
        if frame.is_none() {
            return Ok(Self { line: None, is_awaited: false, context: None });
        }
        let code = frame.getattr(intern!(py, "f_code"))?;
        let line = Line::at_instruction(&code, frame.getattr(intern!(py, "f_lasti"))?.extract()?)?;
        Ok(Self { line: Some(line), is_awaited: false, context: None })
    }

    /// Whether this package or an `ExitStack` may be the caller. Most others are excluded without a call into Python.
    pub(crate) fn may_be_library(&self) -> bool {
        self.line.as_ref().is_some_and(|line| line.may_be_library)
    }

    /// Returns the call site in the program. This one is of `frame`, which may belong to this package or to an
    /// `ExitStack`. If only those called, it stays.
    pub(crate) fn of_program(self, frame: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = frame.py();
        let (mut site, mut at) = (self.clone(), frame.clone());
        while site.may_be_library() && is_library(&at)? {
            at = at.getattr(intern!(py, "f_back"))?;
            if at.is_none() {
                return Ok(self);
            }
            site = Self::of_frame(&at)?;
        }
        Ok(site)
    }
}

/// Whether code of this package, or of `contextlib`, may be in this file.
fn may_be_library(file: &Path) -> bool {
    let folder = file.parent().and_then(Path::file_name);
    folder.is_some_and(|folder| folder == "redlock")
        || file.file_name().is_some_and(|name| name == "contextlib.py")
}

/// Whether a frame runs code of this package, or of `contextlib`.
fn is_library(frame: &Bound<'_, PyAny>) -> PyResult<bool> {
    let name: Option<String> = module(frame)?.extract().ok();
    Ok(name.is_some_and(|name| name == "contextlib" || name.starts_with("redlock.")))
}

/// Converts the code object and the instruction that `redlock._asyncio` passes.
impl<'py> FromPyObject<'_, 'py> for CallSite {
    type Error = PyErr;

    fn extract(site: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let (code, instruction): (Bound<'py, PyAny>, i32) = site.extract()?;
        let line = Some(Line::at_instruction(&code, instruction)?);
        Ok(Self { line, is_awaited: true, context: None })
    }
}

/// The frame of the Python code that calls us, or None if a thread runs only native code, which has no frames.
pub(crate) fn frame(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    static GET_FRAME: Once<Py<PyAny>> = Once::new();
    match GET_FRAME.import(py, "sys", "_getframe")?.call0() {
        Err(error) if error.is_instance_of::<PyValueError>(py) => Ok(py.None().into_bound(py)),
        found => found,
    }
}

/// Returns the object whose method runs in this frame, or `None` if it is not a method.
pub(crate) fn object<'py>(frame: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    Ok(tried(frame.py(), first_argument(frame))?.flatten())
}

fn first_argument<'py>(frame: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = frame.py();
    let code = frame.getattr(intern!(py, "f_code"))?;
    if !code.getattr(intern!(py, "co_argcount"))?.is_truthy()? {
        return Ok(None);
    }
    let name = code.getattr(intern!(py, "co_varnames"))?.get_item(0)?;
    let variables = frame.getattr(intern!(py, "f_locals"))?;
    variables.get_item(name).map(Some)
}

/// The name of the module whose code a frame runs. None for no frame.
pub(crate) fn module<'py>(frame: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = frame.py();
    if frame.is_none() {
        return Ok(frame.clone());
    }
    let globals = frame.getattr(intern!(py, "f_globals"))?;
    globals.call_method1(intern!(py, "get"), (intern!(py, "__name__"),))
}

/// Whether a cell of a notebook calls us, itself or through functions that are not coroutines.
///
/// The notebook runs its cells in its event loop, which has nothing else to do meanwhile.
pub(crate) fn in_cell(py: Python<'_>) -> PyResult<bool> {
    const CO_COROUTINE: u32 = 0x80;
    let mut at = frame(py)?;
    while !at.is_none() {
        let code = at.getattr(intern!(py, "f_code"))?;
        // `<module>`, or `<cell line: 1>`.
        let name: String = code.getattr(intern!(py, "co_name"))?.extract()?;
        let globals = at.getattr(intern!(py, "f_globals"))?;
        if name.starts_with('<') && globals.contains(intern!(py, "get_ipython"))? {
            return Ok(true);
        }
        let flags: u32 = code.getattr(intern!(py, "co_flags"))?.extract()?;
        if flags & CO_COROUTINE != 0 {
            return Ok(false);
        }
        at = at.getattr(intern!(py, "f_back"))?;
    }
    Ok(false)
}

/// Emits a warning while an object is dropped, where nothing can be raised. Returns false if the program ignores
/// warnings of this kind.
pub(crate) fn warn_in_drop<C: PyTypeInfo>(py: Python<'_>, text: &str) -> bool {
    // Another exception may be pending here.
    let current = PyErr::take(py);
    let class = py.get_type::<C>();
    // While the interpreter ends, the module may be gone.
    let is_shown = !is_ignored(&class).unwrap_or(true);
    let text = std::ffi::CString::new(text.replace('\0', "?")).unwrap_or_default();
    if is_shown && let Err(error) = PyErr::warn(py, &class, &text, 1) {
        error.write_unraisable(py, None);
    }
    if let Some(current) = current {
        current.restore(py);
    }
    is_shown
}

/// Whether the first filter for all warnings of this class ignores them, as Python's default filters do with a
/// ResourceWarning.
fn is_ignored(class: &Bound<'_, PyType>) -> PyResult<bool> {
    let warnings = class.py().import(intern!(class.py(), "warnings"))?;
    for filter in warnings.getattr(intern!(class.py(), "filters"))?.try_iter()? {
        let (action, message, category, module, line): Filter<'_> = filter?.extract()?;
        let is_general = message.is_none() && module.is_none() && line == 0;
        if is_general && class.is_subclass(&category)? {
            return Ok(action == "ignore");
        }
    }
    Ok(false)
}

/// A row of `warnings.filters`.
type Filter<'py> = (String, Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>, u32);

/// Emits a warning at the first frame outside of this package.
pub(crate) fn warn<C: PyTypeInfo>(py: Python<'_>, text: &str) -> PyResult<()> {
    let (mut level, mut at) = (1, frame(py)?);
    loop {
        let module = module(&at)?;
        if !OWN_MODULES.iter().any(|ours| module.eq(ours).unwrap_or(false)) {
            break;
        }
        let before = at.getattr(intern!(py, "f_back"))?;
        if before.is_none() {
            break;
        }
        (level, at) = (level + 1, before);
    }
    let text = std::ffi::CString::new(text.replace('\0', "?")).unwrap_or_default();
    PyErr::warn(py, &py.get_type::<C>(), &text, level)
}
