//! The classes `RwLock` and `AsyncRwLock`: the name of a read/write lock, whose sides are locks.

use pyo3::exceptions::{PyAttributeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use pyo3::{PyTraverseError, PyVisit};
use redlock::ffi::{self, Described};

use crate::client::Redlock;
use crate::client::async_client::AsyncRedlock;
use crate::errors::invalid;
use crate::lock::{Lock, Names};
use crate::options::lock_args;
use crate::source::ClientSource;
use crate::unsupported::{no_constructor, unsupported_with};

/// A read/write lock: any number of readers hold it at a time, or one writer. Its sides are locks.
///
///     >>> config = client.rwlock("config")
///     >>> with config.read():
///     ...     config.write().try_acquire() is None
///     True
#[pyclass(frozen, weakref, module = "redlock")]
pub(crate) struct RwLock {
    /// The side of writers, without options.
    pub(crate) writer: Lock,
}

/// A read/write lock for asyncio, trio and anyio. Its sides are asynchronous locks.
///
///     >>> async with redlock.AsyncRedlock("memory://") as client:
///     ...     config = client.rwlock("config")
///     ...     async with config.read():
///     ...         await config.write().try_acquire() is None
///     True
#[pyclass(frozen, weakref, module = "redlock")]
pub(crate) struct AsyncRwLock {
    lock: Py<RwLock>,
}

impl RwLock {
    /// Raises InvalidOption for an invalid name here, not when a side is used.
    pub(crate) fn make(py: Python<'_>, source: ClientSource, names: Names) -> PyResult<Self> {
        // The shortest times, so that only the name is checked.
        let options = lock_args(Described::Side { shared: false }, &[])?;
        let options = options.with("ttl", Some(0.1)).with("node_timeout", Some(0.05));
        Ok(Self { writer: Lock::make(py, source, names, options)? })
    }
}

/// Describes a read/write lock: any number of readers hold it at a time, or one writer. Nothing is sent.
///
/// `read()` and `write()` of the result return its sides, which are locks with options. Readers and
/// writers that wait take turns. Each acquire looks up the default client, which `configure` sets.
///
/// Raises InvalidOption for an invalid name.
///
///     >>> config = redlock.rwlock("config")
///     >>> with config.read(ttl=10) as lease:
///     ...     lease.held
///     True
#[pyfunction]
#[pyo3(signature = (name: "str | collections.abc.Callable[..., str]", *args: "typing.Never", **kwargs: "typing.Never"))]
pub(crate) fn rwlock(
    py: Python<'_>,
    name: &Bound<'_, PyAny>,
    args: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
) -> PyResult<RwLock> {
    refuse_options(args, kwargs)?;
    RwLock::make(py, ClientSource::Default, Names::given(name)?)
}

/// Rejects options, which the sides have.
fn refuse_options(args: &Bound<'_, PyTuple>, kwargs: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
    if args.is_empty() && kwargs.is_none_or(PyDictMethods::is_empty) {
        return Ok(());
    }
    Err(invalid(
        "rwlock() has no options, its sides have: use rwlock(name).read(ttl=...) or rwlock(name).write(ttl=...)",
    ))
}

#[pymethods]
impl Redlock {
    /// Describes a read/write lock: any number of readers hold it at a time, or one writer. Nothing is sent.
    ///
    /// `read()` and `write()` of the result return its sides, which are locks with options. Readers and
    /// writers that wait take turns.
    ///
    /// Raises InvalidOption for an invalid name.
    ///
    ///     >>> @client.rwlock("config:{tenant}").read(ttl=10)
    ///     ... def load(tenant): return len(tenant)
    ///     >>> load("acme")
    ///     4
    #[pyo3(signature = (name: "str | collections.abc.Callable[..., str]", *args: "typing.Never", **kwargs: "typing.Never"))]
    fn rwlock(
        &self,
        py: Python<'_>,
        name: &Bound<'_, PyAny>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<RwLock> {
        refuse_options(args, kwargs)?;
        RwLock::make(py, ClientSource::Client(self.client.clone()), Names::given(name)?)
    }
}

#[pymethods]
impl AsyncRedlock {
    /// Describes a read/write lock: any number of readers hold it at a time, or one writer. Nothing is sent.
    ///
    /// `read()` and `write()` of the result return its sides, which are locks with options. Readers and
    /// writers that wait take turns.
    ///
    /// Raises InvalidOption for an invalid name.
    ///
    ///     >>> async with redlock.AsyncRedlock("memory://") as client:
    ///     ...     async with client.rwlock("config").write(ttl=10) as lease:
    ///     ...         lease.key
    ///     'lock:config'
    #[pyo3(signature = (name: "str | collections.abc.Callable[..., str]", *args: "typing.Never", **kwargs: "typing.Never"))]
    fn rwlock(
        &self,
        py: Python<'_>,
        name: &Bound<'_, PyAny>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<AsyncRwLock> {
        let lock = self.client.get().rwlock(py, name, args, kwargs)?;
        Ok(AsyncRwLock { lock: Py::new(py, lock)? })
    }
}

no_constructor!(RwLock, "redlock.rwlock(name) and client.rwlock(name) make one");

#[pymethods]
impl RwLock {
    /// Returns the asynchronous form of this lock.
    ///
    ///     >>> async with client.rwlock("config").as_async().read() as lease:
    ///     ...     lease.key
    ///     'lock:config'
    fn as_async(slf: Py<Self>) -> AsyncRwLock {
        AsyncRwLock { lock: slf }
    }

    /// The name, without the client's prefix.
    ///
    ///     >>> client.rwlock("config").name
    ///     'config'
    #[getter]
    fn name(&self) -> String {
        self.writer.name()
    }

    /// The Redis key.
    ///
    ///     >>> client.rwlock("config").key
    ///     'lock:config'
    #[getter]
    fn key(&self, py: Python<'_>) -> PyResult<String> {
        self.writer.key(py)
    }

    fn __repr__(&self) -> String {
        self.writer.shown("RwLock")
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.writer.traverse(&visit)
    }
}

no_constructor!(AsyncRwLock, "AsyncRedlock.rwlock(name) and rwlock.as_async() return one");

#[pymethods]
impl AsyncRwLock {
    /// Returns the blocking form of this lock.
    ///
    ///     >>> redlock.AsyncRedlock("memory://").rwlock("config").as_sync()
    ///     <redlock.RwLock config>
    pub(crate) fn as_sync(&self, py: Python<'_>) -> Py<RwLock> {
        self.lock.clone_ref(py)
    }

    /// The name, without the client's prefix.
    ///
    ///     >>> redlock.AsyncRedlock("memory://").rwlock("config").name
    ///     'config'
    #[getter]
    fn name(&self) -> String {
        self.lock.get().name()
    }

    /// The Redis key.
    ///
    ///     >>> redlock.AsyncRedlock("memory://").rwlock("config").key
    ///     'lock:config'
    #[getter]
    fn key(&self, py: Python<'_>) -> PyResult<String> {
        self.lock.get().key(py)
    }

    fn __repr__(&self) -> String {
        self.lock.get().writer.shown("AsyncRwLock")
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.lock)
    }
}

/// The TypeError of a `with` over a read/write lock instead of one of its sides.
fn no_side_given(class: &str, with: &str) -> PyErr {
    PyTypeError::new_err(format!(
        "redlock.{class} has two sides: use '{with} rwlock.read():' or '{with} rwlock.write():'"
    ))
}

/// Generates the methods that only the sides have. Their errors name the sides.
macro_rules! without_side {
    ($class:ident, $with:literal) => {
        #[pymethods]
        impl $class {
            fn __getattr__(&self, name: &Bound<'_, PyString>) -> PyResult<Py<PyAny>> {
                Err(PyAttributeError::new_err(format!(
                    "redlock.{} has no '{}'. Use rwlock.read() or rwlock.write(), which return locks",
                    stringify!($class),
                    ffi::shown(&name.to_string_lossy())
                )))
            }
        }

        unsupported_with!($class, __enter__, __exit__, |_| no_side_given(stringify!($class), $with));
        unsupported_with!($class, __aenter__, __aexit__, |_| no_side_given(stringify!($class), $with));
    };
}

without_side!(RwLock, "with");
without_side!(AsyncRwLock, "async with");
