//! Pickles locks and clients by their options. The pickle of a lock includes its client. A lock of the default client
//! uses the default client of the process that unpickles it. Leases cannot be pickled. Use `attach` instead.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyBytes, PyDict, PyTuple};
use redlock::ffi::{AddressMapOption, Args, CLIENT_OPTIONS, Described, Row, Value};

use crate::args::Anything;
use crate::callbacks::Kept;
use crate::client::Redlock;
use crate::client::async_client::AsyncRedlock;
use crate::errors::invalid;
use crate::leader::{AsyncLeader, Leader};
use crate::lease::Lease;
use crate::lease::async_lease::AsyncLease;
use crate::lock::async_lock::AsyncLock;
use crate::lock::{Lock, Names};
use crate::once::{AsyncOnce, Once};
use crate::options::{client_args, lock_args};
use crate::rwlock::{AsyncRwLock, RwLock};
use crate::source::{ClientSource, Numbered};

/// The name of an option, and its value in a pickle.
type Found<'py> = (&'static str, Option<Bound<'py, PyAny>>);

/// The module of the functions below, for pickles.
pub(crate) const HERE: &str = "redlock._native";

#[pymethods]
impl Redlock {
    #[pyo3(signature = () -> "tuple[typing.Any, ...]")]
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let (recipe, kept) = (&self.client.recipe, self.client.kept.as_ref());
        let options = given(py, &recipe.args, kept)?;
        let parts = (self.client.identity(py)?, &recipe.nodes, options).into_pyobject(py)?;
        (py.import(HERE)?.getattr("_client")?, parts).into_pyobject(py)
    }
}

#[pymethods]
impl Lock {
    #[pyo3(signature = () -> "tuple[typing.Any, ...]")]
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let client = match &self.source {
            ClientSource::Default => None,
            ClientSource::Client(client) => Some(Py::new(py, Redlock { client: client.clone() })?),
        };
        let options = given(py, &self.args, None)?;
        let parts = (client, self.given(py)?, options, self.default(py)?).into_pyobject(py)?;
        (py.import(HERE)?.getattr("_lock")?, parts).into_pyobject(py)
    }
}

#[pymethods]
impl RwLock {
    #[pyo3(signature = () -> "tuple[typing.Any, ...]")]
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let py = slf.py();
        let writer = slf.call_method0("write")?;
        (py.import(HERE)?.getattr("_rwlock")?, (writer,)).into_pyobject(py)
    }
}

#[pymethods]
impl Once {
    #[pyo3(signature = () -> "tuple[typing.Any, ...]")]
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let parts = (self.lock.clone_ref(py), false);
        (py.import(HERE)?.getattr("_once")?, parts).into_pyobject(py)
    }
}

#[pymethods]
impl AsyncOnce {
    #[pyo3(signature = () -> "tuple[typing.Any, ...]")]
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let parts = (self.lock.clone_ref(py), true);
        (py.import(HERE)?.getattr("_once")?, parts).into_pyobject(py)
    }
}

#[pymethods]
impl Leader {
    #[pyo3(signature = () -> "tuple[typing.Any, ...]")]
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let lock = self.lock.clone_ref(py);
        (py.import(HERE)?.getattr("_leader")?, (lock,)).into_pyobject(py)
    }
}

/// A copy is the object itself: locks have no state, and a client shares its connections.
macro_rules! copies_as_itself {
    ($($class:ident),+) => {$(
        #[pymethods]
        impl $class {
            fn __copy__(slf: Py<Self>) -> Py<Self> {
                slf
            }

            #[pyo3(signature = (memo: "object"))]
            fn __deepcopy__(slf: Py<Self>, memo: &Bound<'_, PyAny>) -> Py<Self> {
                let _ = memo;
                slf
            }
        }
    )+};
}

pub(crate) use copies_as_itself;

copies_as_itself!(Redlock, Lock, RwLock, AsyncRedlock, AsyncLock, AsyncRwLock);

/// Pickles an asynchronous object as a call of `as_async` on its blocking form.
macro_rules! pickles_as_blocking {
    ($($class:ident),+) => {$(
        #[pymethods]
        impl $class {
            #[pyo3(signature = () -> "tuple[typing.Any, ...]")]
            fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
                let blocking = slf.call_method0("as_sync")?;
                let as_async = blocking.get_type().getattr("as_async")?;
                (as_async, (blocking,)).into_pyobject(slf.py())
            }
        }
    )+};
}

pickles_as_blocking!(AsyncRedlock, AsyncLock, AsyncRwLock, AsyncLeader);

/// A lease has one owner, so it can be neither copied nor pickled. `$text` is the class with its article.
macro_rules! cannot_be_pickled {
    ($class:ident, $text:literal) => {
        #[pymethods]
        impl $class {
            #[pyo3(signature = () -> "typing.NoReturn")]
            fn __reduce__(&self) -> PyResult<Py<PyAny>> {
                Err(PyTypeError::new_err(concat!(
                    $text,
                    " cannot be copied or pickled, because two owners would release it. To hand it to another \
                     process, pass lease.token, call lock.attach(token) there, then lease.detach() here"
                )))
            }
        }
    };
}

cannot_be_pickled!(Lease, "a Lease");
cannot_be_pickled!(AsyncLease, "an AsyncLease");

/// Returns the client of a pickle. All pickles of one client return the same client while it exists in this process.
#[pyfunction]
#[pyo3(name = "_client", signature = (identity: "str", nodes: "list[str]", options: "dict[str, typing.Any]"))]
pub(crate) fn unpickled_client(
    py: Python<'_>,
    identity: String,
    nodes: Vec<String>,
    options: &Bound<'_, PyDict>,
) -> PyResult<Redlock> {
    if let Some(client) = Numbered::known(py, &identity)? {
        return Ok(Redlock { client });
    }
    let found = of_table(&CLIENT_OPTIONS.iter().collect::<Vec<_>>(), options)?;
    let found: Vec<_> = found.iter().map(|(name, value)| (*name, value.as_ref())).collect();
    let (args, kept) = client_args(&found)?;
    let client = Numbered::make(py, nodes, args, kept)?;
    client.known_as(identity);
    Ok(Redlock { client })
}

/// Returns the lock of a pickle. Without a client, it is a lock of the default client.
#[pyfunction]
#[pyo3(name = "_lock", signature = (client: "Redlock | None", names: "typing.Any", options: "dict[str, typing.Any]", default: "tuple[typing.Any, ...]"))]
pub(crate) fn unpickled_lock(
    py: Python<'_>,
    client: Option<Py<Redlock>>,
    names: &Bound<'_, PyAny>,
    options: &Bound<'_, PyDict>,
    default: &Bound<'_, PyTuple>,
) -> PyResult<Lock> {
    let source = client
        .map_or(ClientSource::Default, |client| ClientSource::Client(client.get().client.clone()));
    let shared = options.get_item("shared")?.map(|shared| shared.extract()).transpose()?;
    let described = Described::described_by(shared, |name| options.contains(name))?;
    let found = of_table(&described.rows().collect::<Vec<_>>(), options)?;
    let mark = described.mark().map(|(mark, _)| mark);
    let given = found.iter().filter(|(name, _)| Some(*name) != mark);
    let given: Vec<_> = given.map(|(name, value)| (*name, value.as_ref())).collect();
    let args = lock_args(described, &given)?;
    let default = match default.get_item(0) {
        Ok(default) => Anything::Given(default.unbind()),
        Err(_) => Anything::NotGiven,
    };
    Lock::make(py, source, Names::given(names)?, args)?.with_default(default)
}

/// Returns the read/write lock of a pickle, whose side of writers this is.
#[pyfunction]
#[pyo3(name = "_rwlock", signature = (writer: "Lock"))]
pub(crate) fn unpickled_rwlock(py: Python<'_>, writer: &Bound<'_, Lock>) -> PyResult<RwLock> {
    let (source, names) = writer.get().parts(py);
    RwLock::make(py, source, names)
}

/// Returns the run of a pickle, whose lock this is.
#[pyfunction]
#[pyo3(name = "_once", signature = (lock: "Lock", is_async: "bool") -> "Once | AsyncOnce")]
pub(crate) fn unpickled_once(
    py: Python<'_>,
    lock: Py<Lock>,
    is_async: bool,
) -> PyResult<Py<PyAny>> {
    if is_async {
        return Ok(Py::new(py, AsyncOnce { lock })?.into_any());
    }
    Ok(Py::new(py, Once { lock })?.into_any())
}

/// Returns the candidate of a pickle, whose lock this is.
#[pyfunction]
#[pyo3(name = "_leader", signature = (lock: "Lock") -> "Leader")]
pub(crate) fn unpickled_leader(lock: Py<Lock>) -> Leader {
    Leader { lock }
}

/// Returns the options that were set, as Python values.
fn given<'py, T>(
    py: Python<'py>,
    args: &Args<T>,
    kept: Option<&Kept>,
) -> PyResult<Bound<'py, PyDict>> {
    let options = PyDict::new(py);
    for (name, value) in args.given() {
        match value {
            Value::Number(number) => options.set_item(name, number)?,
            Value::Switch(yes) => options.set_item(name, yes)?,
            Value::Text(text) => options.set_item(name, text)?,
            Value::Pem(pem) => match pem.bytes() {
                Some(bytes) => options.set_item(name, PyBytes::new(py, bytes))?,
                None => options.set_item(name, pem.path())?,
            },
            Value::AddressMap(AddressMapOption::Table(entries)) => {
                let entries = entries.iter().map(|(from, to)| (from, to));
                options.set_item(name, entries.into_py_dict(py)?)?;
            }
            Value::Credentials(_) | Value::AddressMap(AddressMapOption::Function(_)) => {
                options.set_item(name, kept.and_then(|kept| kept.function(py, name)))?;
            }
        }
    }
    Ok(options)
}

/// Returns each option of a table with its value in the pickle.
fn of_table<'py, T>(
    rows: &[&'static Row<T>],
    options: &Bound<'py, PyDict>,
) -> PyResult<Vec<Found<'py>>> {
    for name in options.keys() {
        let name: String = name.extract()?;
        if !rows.iter().any(|row| row.name == name) {
            return Err(invalid(format!(
                "this pickle has the option {name}, which this version of redlock lacks: it was made by another one"
            )));
        }
    }
    rows.iter().map(|row| Ok((row.name, options.get_item(row.name)?))).collect()
}
