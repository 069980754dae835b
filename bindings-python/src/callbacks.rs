//! Calls functions that the program passed as options, on a separate Python thread: `credentials`, `address_map`.
//!
//! The background thread must not wait for the GIL, so it never calls a function. A short-lived native thread starts
//! the Python thread. No Rust frame is below the function, so an interpreter that exits may end its thread.
//!
//! The objects of a client own the functions, but its connections do not. A function that refers to its client is
//! therefore garbage-collected with it.

use std::sync::{Arc, Mutex};

use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyModule, PyWeakrefReference};
use pyo3::{IntoPyObjectExt, PyTraverseError, PyVisit};
use redlock::ffi::{Answer, Function};

use crate::args;
use crate::errors::invalid;
use crate::once_cell::Once;
use crate::runtime::lock;
use crate::runtime::loss_callback::is_coroutine_function;

/// The Python code, which calls the function on a thread and reports its result.
const BEGIN: &std::ffi::CStr = c"
import _thread, sys

def begin(function, arguments, tell):
    start = _thread.start_new_thread
    # A greenlet would hold up the thread that it runs in.
    if 'gevent.monkey' in sys.modules:
        start = sys.modules['gevent.monkey'].get_original('_thread', 'start_new_thread')
    elif 'eventlet.patcher' in sys.modules:
        start = sys.modules['eventlet.patcher'].original('_thread').start_new_thread
    start(run, (function, arguments, tell))

def run(function, arguments, tell):
    try:
        answer = function(*arguments)
    except BaseException as error:
        tell(None, error)
    else:
        tell(answer, None)
";

/// Owns a function, so that the garbage collector can see it.
#[pyclass(frozen, weakref, module = "redlock")]
pub(crate) struct Callback {
    function: Py<PyAny>,
}

#[pymethods]
impl Callback {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.function)
    }
}

/// Creates its class, which no module exports.
pub(crate) fn make_classes(py: Python<'_>) {
    drop(py.get_type::<Callback>());
}

/// References to the functions of a client by option, in each object that must keep them alive.
pub(crate) struct Kept(Vec<(&'static str, Py<Callback>)>);

/// The same without owning the functions.
pub(crate) struct WeaklyKept(Vec<(&'static str, Py<PyWeakrefReference>)>);

impl Clone for Kept {
    fn clone(&self) -> Self {
        Python::attach(|py| {
            Self(self.0.iter().map(|(option, kept)| (*option, kept.clone_ref(py))).collect())
        })
    }
}

impl Kept {
    /// Returns the function of this option.
    pub(crate) fn function(&self, py: Python<'_>, option: &str) -> Option<Py<PyAny>> {
        let found = self.0.iter().find(|(name, _)| *name == option);
        found.map(|(_, kept)| kept.get().function.clone_ref(py))
    }

    /// Adds the function of an option. Returns how to reach it without owning it.
    fn add<'py>(
        kept: &mut Option<Self>,
        option: &'static str,
        function: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyWeakrefReference>> {
        let owner = Bound::new(function.py(), Callback { function: function.clone().unbind() })?;
        let weak = PyWeakrefReference::new(owner.as_any())?;
        kept.get_or_insert(Self(Vec::new())).0.push((option, owner.unbind()));
        Ok(weak)
    }

    /// Returns weak references, for code that must not own the functions.
    pub(crate) fn downgrade(&self, py: Python<'_>) -> PyResult<WeaklyKept> {
        let weak = |(option, kept): &(&'static str, Py<Callback>)| {
            Ok((*option, PyWeakrefReference::new(kept.bind(py).as_any())?.unbind()))
        };
        self.0.iter().map(weak).collect::<PyResult<_>>().map(WeaklyKept)
    }

    /// For the garbage collector, in a class that has such references.
    pub(crate) fn traverse(
        this: Option<&Self>,
        visit: &PyVisit<'_>,
    ) -> Result<(), PyTraverseError> {
        this.into_iter().flat_map(|kept| &kept.0).try_for_each(|(_, kept)| visit.call(kept))
    }
}

impl WeaklyKept {
    /// Returns the functions, if all are still alive.
    pub(crate) fn upgrade(&self, py: Python<'_>) -> PyResult<Option<Kept>> {
        let strong = |(option, weak): &(&'static str, Py<PyWeakrefReference>)| {
            let owner = weak.bind(py).upgrade_as::<Callback>()?;
            Ok(owner.map(|owner| (*option, owner.unbind())))
        };
        let all = self.0.iter().map(strong).collect::<PyResult<Option<Vec<_>>>>()?;
        Ok(all.map(Kept))
    }
}

/// What a function returned, or what it raised.
type Told<'a, 'py> = Result<&'a Bound<'py, PyAny>, Bound<'py, PyBaseException>>;

/// Returns an object that calls the function of an option, unless it was collected. `read` converts its result.
pub(crate) fn calling<Q, A>(
    kept: &mut Option<Kept>,
    option: &'static str,
    function: &Bound<'_, PyAny>,
    read: fn(Told<'_, '_>) -> Result<A, String>,
) -> PyResult<Arc<Function<Q, A>>>
where
    Q: for<'py> IntoPyObject<'py> + Send + 'static,
    A: Send + 'static,
{
    if is_coroutine_function(function)? {
        return Err(invalid(format!(
            "{option} is a coroutine function: it is called on a separate thread, where no event loop runs. Pass a \
             function, which may call asyncio.run()"
        )));
    }
    let weak = Arc::new(Kept::add(kept, option, function)?.unbind());
    Ok(Arc::new(move |arguments, answer: Answer<A>| {
        let weak = Arc::clone(&weak);
        let work = move || {
            Python::try_attach(|py| {
                let answer = Arc::new(Mutex::new(Some(answer)));
                if let Err(error) = start_call(py, &weak, arguments, &answer, read) {
                    let class = class_of(error.value(py));
                    send_answer(&answer, Err(format!("cannot be called: {class}")));
                }
            });
        };
        // Without a thread or an interpreter, `answer` is dropped with `work`, and its drop reports an error.
        let _ = std::thread::Builder::new().name(format!("redlock-{option}")).spawn(work);
    }))
}

type Owed<A> = Arc<Mutex<Option<Answer<A>>>>;

fn send_answer<A>(owed: &Owed<A>, given: Result<A, String>) {
    if let Some(answer) = lock(owed).take() {
        answer.send(given);
    }
}

fn start_call<'py, Q, A: Send + 'static>(
    py: Python<'py>,
    weak: &Py<PyWeakrefReference>,
    arguments: Q,
    owed: &Owed<A>,
    read: fn(Told<'_, '_>) -> Result<A, String>,
) -> PyResult<()>
where
    Q: IntoPyObject<'py>,
{
    static MODULE: Once<Py<PyModule>> = Once::new();
    let Some(source) = weak.bind(py).upgrade_as::<Callback>()? else {
        send_answer(owed, Err("cannot be called: the client was collected".to_owned()));
        return Ok(());
    };
    let module = MODULE.get_or_try_init(py, || {
        PyModule::from_code(py, BEGIN, c"redlock/callbacks", c"_redlock_callbacks")
            .map(Bound::unbind)
    })?;
    let owed = Arc::clone(owed);
    let tell = PyCFunction::new_closure(py, Some(c"tell"), None, move |told, _| {
        let (answer, raised) = (told.get_item(0)?, told.get_item(1)?);
        let raised = raised.cast_into::<PyBaseException>();
        let told = raised.map_or(Ok(&answer), Err);
        send_answer(
            &owed,
            told.map_or_else(|error| read(Err(error)), |answer| returned(answer, read)),
        );
        PyResult::Ok(())
    })?;
    let function = source.get().function.clone_ref(py);
    let arguments = arguments.into_bound_py_any(py)?;
    module.bind(py).call_method1("begin", (function, arguments, tell)).map(drop)
}

/// Converts a result, unless it is the coroutine of a function that is not recognized as one.
fn returned<A>(
    answer: &Bound<'_, PyAny>,
    read: fn(Told<'_, '_>) -> Result<A, String>,
) -> Result<A, String> {
    if !answer.hasattr("__await__").unwrap_or_default() {
        return read(Ok(answer));
    }
    // Closed, because otherwise Python warns that the coroutine was never awaited.
    let _ = answer.call_method0("close");
    Err("returned an awaitable, but no event loop runs in the thread that calls it".to_owned())
}

/// Returns the class of an error. Its text may contain a secret.
pub(crate) fn class_of(error: &Bound<'_, PyBaseException>) -> String {
    args::class(error.as_any())
}
