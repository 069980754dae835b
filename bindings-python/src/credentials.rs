//! Calls the program's `credentials` callback, on a separate Python thread.
//!
//! The background thread must not wait for the GIL, so it never calls the function. A short-lived native thread starts
//! the Python thread. No Rust frame is below the function, so an interpreter that exits may end its thread.
//!
//! The objects of a client own the function, but its connections do not. A function that refers to its client is
//! therefore garbage-collected with it.

use std::sync::{Arc, Mutex};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCFunction, PyList, PyModule, PyString, PyTuple, PyWeakrefReference};
use pyo3::{PyTraverseError, PyVisit};
use redlock::ffi::{Answer, Ask, Credentials, Unit};

use crate::args;
use crate::errors::invalid;
use crate::once::Once;
use crate::runtime::lock;

/// The Python code, which calls the function on a thread and reports its result.
const BEGIN: &std::ffi::CStr = c"
import _thread, sys

def begin(ask, tell):
    start = _thread.start_new_thread
    # A greenlet would hold up the thread that it runs in.
    if 'gevent.monkey' in sys.modules:
        start = sys.modules['gevent.monkey'].get_original('_thread', 'start_new_thread')
    elif 'eventlet.patcher' in sys.modules:
        start = sys.modules['eventlet.patcher'].original('_thread').start_new_thread
    start(run, (ask, tell))

def run(ask, tell):
    try:
        answer = ask()
    except BaseException as error:
        tell(None, type(error).__name__)
    else:
        tell(answer, None)
";

/// Owns the callback, so that the garbage collector can see it.
#[pyclass(frozen, weakref, module = "redlock")]
pub(crate) struct CredentialsCallback {
    function: Py<PyAny>,
}

#[pymethods]
impl CredentialsCallback {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.function)
    }
}

/// Creates its class, which no module exports.
pub(crate) fn make_classes(py: Python<'_>) {
    drop(py.get_type::<CredentialsCallback>());
}

/// A reference to the callback, in each object that must keep it alive.
pub(crate) struct Kept(Py<CredentialsCallback>);

impl Clone for Kept {
    fn clone(&self) -> Self {
        Python::attach(|py| Self(self.0.clone_ref(py)))
    }
}

impl Kept {
    /// Returns the callback.
    pub(crate) fn function(&self, py: Python<'_>) -> Py<PyAny> {
        self.0.get().function.clone_ref(py)
    }

    /// Returns a weak reference, for code that must not own the callback.
    pub(crate) fn downgrade(&self, py: Python<'_>) -> PyResult<Py<PyWeakrefReference>> {
        PyWeakrefReference::new(self.0.bind(py).as_any()).map(Bound::unbind)
    }

    /// Returns the callback, if it is still alive.
    pub(crate) fn upgrade(py: Python<'_>, weak: &Py<PyWeakrefReference>) -> PyResult<Option<Self>> {
        Ok(weak.bind(py).upgrade_as::<CredentialsCallback>()?.map(|source| Self(source.unbind())))
    }

    /// For the garbage collector, in a class that has such a reference.
    pub(crate) fn traverse(
        this: Option<&Self>,
        visit: &PyVisit<'_>,
    ) -> Result<(), PyTraverseError> {
        this.map_or(Ok(()), |kept| visit.call(&kept.0))
    }
}

/// Parses `credentials=`. Returns the owner of the function and the object that calls it.
pub(crate) fn given(
    name: &str,
    value: Option<&Bound<'_, PyAny>>,
) -> PyResult<Option<(Kept, Arc<Ask>)>> {
    let Some(value) = value else { return Ok(None) };
    let py = value.py();
    if !value.is_callable() {
        // Not shown: it may be the secret itself.
        let class = args::class(value);
        return Err(invalid(format!(
            "{name} is of type {class}: it must be a function that returns a password"
        )));
    }
    if py.import("inspect")?.call_method1("iscoroutinefunction", (value,))?.is_truthy()? {
        return Err(invalid(format!(
            "{name} is a coroutine function: it is called on a separate thread, where no event loop runs. Pass a \
             function, which may call asyncio.run()"
        )));
    }
    let source = Bound::new(py, CredentialsCallback { function: value.clone().unbind() })?;
    let weak = PyWeakrefReference::new(source.as_any())?.unbind();
    Ok(Some((Kept(source.unbind()), asking(Arc::new(weak)))))
}

/// Calls the callback on a new thread, unless it was collected.
fn asking(weak: Arc<Py<PyWeakrefReference>>) -> Arc<Ask> {
    Arc::new(move |answer| {
        let weak = Arc::clone(&weak);
        let work = move || {
            Python::try_attach(|py| {
                let answer = Arc::new(Mutex::new(Some(answer)));
                if let Err(error) = begin(py, &weak, &answer) {
                    give(&answer, Err(format!("cannot be called: {}", class_of(py, &error))));
                }
            });
        };
        // Without a thread or an interpreter, `answer` is dropped with `work`, and its drop reports an error.
        let _ = std::thread::Builder::new().name("redlock-credentials".into()).spawn(work);
    })
}

type Owed = Arc<Mutex<Option<Answer>>>;

fn give(owed: &Owed, given: Result<Credentials, String>) {
    if let Some(answer) = lock(owed).take() {
        answer.give(given);
    }
}

fn begin(py: Python<'_>, weak: &Py<PyWeakrefReference>, owed: &Owed) -> PyResult<()> {
    static MODULE: Once<Py<PyModule>> = Once::new();
    let Some(source) = weak.bind(py).upgrade_as::<CredentialsCallback>()? else {
        give(owed, Err("cannot be called: the client was collected".to_owned()));
        return Ok(());
    };
    let module = MODULE.get_or_try_init(py, || {
        PyModule::from_code(py, BEGIN, c"redlock/credentials", c"_redlock_credentials")
            .map(Bound::unbind)
    })?;
    let owed = Arc::clone(owed);
    let tell = PyCFunction::new_closure(py, Some(c"tell"), None, move |told, _| {
        give(&owed, read(told));
        PyResult::Ok(())
    })?;
    let function = source.get().function.clone_ref(py);
    module.bind(py).call_method1("begin", (function, tell)).map(drop)
}

/// Returns the class of an error. Its text is not shown, because it may contain the secret.
fn class_of(py: Python<'_>, error: &PyErr) -> String {
    let name = error.get_type(py).name();
    name.map_or_else(|_| "an error".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// Converts the message of the thread: the result of the callback, or the class of its exception.
fn read(told: &Bound<'_, PyTuple>) -> Result<Credentials, String> {
    let py = told.py();
    let answer = told.get_item(0).map_err(|error| class_of(py, &error))?;
    if let Ok(raised) = told.get_item(1).and_then(|raised| raised.extract::<String>()) {
        return Err(format!("raised {raised}, whose text is not shown"));
    }
    if answer.hasattr("__await__").unwrap_or_default() {
        // Closed, because otherwise Python warns that the coroutine was never awaited.
        let _ = answer.call_method0("close");
        return Err(
            "returned an awaitable, but no event loop runs in the thread that calls it".to_owned()
        );
    }
    credentials(&answer)
}

/// Converts the result. Lists and bytes are accepted too, as in other Redis clients.
fn credentials(answer: &Bound<'_, PyAny>) -> Result<Credentials, String> {
    if is_word(answer) {
        return Ok(Credentials::new(word("password", answer)?));
    }
    let words: Vec<Bound<'_, PyAny>> = match (answer.cast::<PyTuple>(), answer.cast::<PyList>()) {
        (Ok(tuple), _) => tuple.iter().collect(),
        (_, Ok(list)) => list.iter().collect(),
        _ => return Err(odd(&format!("a value of type {}", args::class(answer)))),
    };
    let (user, password, lifetime) = match words.as_slice() {
        [user, password] => (user, password, None),
        [user, password, lifetime] => (user, password, Some(lifetime)),
        _ => return Err(odd(&format!("{} values", words.len()))),
    };
    let mut found = Credentials::new(word("password", password)?);
    if !user.is_none() {
        found = found.user(word("user", user)?);
    }
    if let Some(lifetime) = lifetime.filter(|lifetime| !lifetime.is_none()) {
        let wrong = || odd(&format!("a lifetime of type {}", args::class(lifetime)));
        let seconds = args::seconds("lifetime", Some(lifetime)).ok().flatten().ok_or_else(wrong)?;
        let duration = Unit::Seconds.duration("lifetime", seconds);
        found = found
            .lifetime(duration.map_err(|_| "returned a lifetime that is not a time".to_owned())?);
    }
    Ok(found)
}

fn is_word(value: &Bound<'_, PyAny>) -> bool {
    value.is_instance_of::<PyString>() || value.is_instance_of::<PyBytes>()
}

/// Converts a user or a password. Errors do not show it.
fn word(what: &str, value: &Bound<'_, PyAny>) -> Result<String, String> {
    if !is_word(value) {
        return Err(odd(&format!("a {what} of type {}", args::class(value))));
    }
    let text = value.extract::<String>().ok().or_else(|| {
        let bytes = value.cast::<PyBytes>().ok()?.as_bytes();
        str::from_utf8(bytes).ok().map(str::to_owned)
    });
    text.ok_or_else(|| format!("returned a {what} that is not UTF-8. Use ASCII characters"))
}

fn odd(what: &str) -> String {
    format!(
        "returned {what}: it must be a password, (user, password) or (user, password, lifetime in seconds)"
    )
}
