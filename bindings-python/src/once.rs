//! The classes `Once` and `AsyncOnce`: a function that runs unless it ran with success within a given time.
//! `redlock._once` adds the methods that run it.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use pyo3::{PyTraverseError, PyVisit};
use redlock::ffi::Described;

use crate::call_site::CallSite;
use crate::client::Redlock;
use crate::client::async_client::AsyncRedlock;
use crate::lease::Lease;
use crate::lock::{Lock, Names};
use crate::options::{lock_args, refuse_lock};
use crate::source::ClientSource;

/// A function that runs once in a given time, over all clients. `run` calls a function, and `@once` decorates one.
///
///     >>> client.once("payment:42", remember=86400).run(len, "charged")
///     (True, 7)
///     >>> client.once("payment:42", remember=86400).run(len, "charged")
///     (False, None)
#[pyclass(frozen, weakref, module = "redlock")]
pub(crate) struct Once {
    pub(crate) lock: Py<Lock>,
}

/// A coroutine function that runs once in a given time, over all clients. `run` calls one, and `@once` decorates one.
///
///     >>> async def charge(): return 7
///     >>> async with redlock.AsyncRedlock("memory://") as client:
///     ...     await client.once("payment:42", remember=86400).run(charge)
///     (True, 7)
#[pyclass(frozen, weakref, module = "redlock")]
pub(crate) struct AsyncOnce {
    pub(crate) lock: Py<Lock>,
}

/// Generates the methods of both classes.
macro_rules! methods {
    ($class:ident, $example:literal) => {
        #[pymethods]
        impl $class {
            #[new]
            #[pyo3(signature = (*args: "typing.Never", **kwargs: "typing.Never"))]
            fn new(
                args: &Bound<'_, PyTuple>,
                kwargs: Option<&Bound<'_, PyDict>>,
            ) -> PyResult<Self> {
                let _ = (args, kwargs);
                Err(PyTypeError::new_err(concat!(
                    "redlock.",
                    stringify!($class),
                    " has no constructor: client.once(name, remember=...) makes one"
                )))
            }

            #[doc = $example]
            #[getter]
            fn key(&self, py: Python<'_>) -> PyResult<String> {
                self.lock.get().key(py)
            }

            /// The lock, whose keys are the memory.
            #[getter]
            fn _lock(&self, py: Python<'_>) -> Py<Lock> {
                self.lock.clone_ref(py)
            }

            fn __repr__(&self) -> String {
                self.lock.get().shown(stringify!($class))
            }

            fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
                visit.call(&self.lock)
            }
        }
    };
}

methods!(
    Once,
    "The Redis key.\n\n    >>> client.once(\"payment:42\", remember=60).key\n    'lock:payment:42'"
);
methods!(
    AsyncOnce,
    "The Redis key.\n\n    >>> client.as_async().once(\"payment:42\", remember=60).key\n    'lock:payment:42'"
);

#[pymethods]
impl Lock {
    /// Acquires the lock to run a function once, for the code at `site`. Returns None if a run is remembered.
    #[pyo3(signature = (site: "tuple[types.CodeType, int]") -> "Lease | None")]
    fn _acquire_once(&self, py: Python<'_>, site: CallSite) -> PyResult<Option<Py<Lease>>> {
        let instead =
            "'await client.once(...).run(...)' of an AsyncRedlock, or '@once' over an 'async def'";
        self.warn_of_loop(py, instead)?;
        self.acquired(py, site, Some(None))
    }
}

/// The lock of a run with these options.
fn described(
    py: Python<'_>,
    (source, name): (ClientSource, &Bound<'_, PyAny>),
    options: &[(&'static str, Option<&Bound<'_, PyAny>>)],
    args: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
) -> PyResult<Py<Lock>> {
    refuse_lock(Described::Once, "once()", args, kwargs)?;
    let options = lock_args(Described::Once, options)?;
    Py::new(py, Lock::make(py, source, Names::given(name)?, options)?)
}

/// The options of a call by their names.
macro_rules! options {
    ($remember:ident, $($option:ident),+) => {
        &[(stringify!($remember), Some($remember)), $((stringify!($option), $option)),+]
    };
}

/// Generates the method of a class of clients.
macro_rules! method {
    ($class:ident -> $made:ident; $(#[$example:meta])+) => {
        #[pymethods]
        impl $class {
            /// Describes a function that runs once in the time `remember`, over all clients. Nothing is sent.
            ///
            /// It runs under the lock of this name, whose key is kept after a success. A function that raises and a
            /// process that dies leave no memory, so the next call runs it again. Do not use the same name for a lock.
            /// For a decorator, the name may contain parameters of the decorated function in braces.
            ///
            /// - remember: How long a successful run is remembered, in seconds or as a timedelta, from its start.
            ///   Required.
            /// - ttl: Time in seconds until the run of a process that died may be repeated. The lease is renewed while
            ///   the function runs. Minimum 0.1, default 10.
            /// - wait: Maximum time in seconds to wait while another caller runs the function, and for failed nodes.
            ///   Default 0, which raises LockTimeout at once.
            /// - renew: Whether to renew the lease every third of the ttl. Default True.
            /// - max_hold: Maximum time in seconds that a run takes. The lease is then lost. Default None, which sets
            ///   no limit.
            /// - node_timeout: Timeout for the reply of one node, in seconds. Default the client's, else min(1, ttl /
            ///   5), with `fsync` min(2, ttl / 5).
            /// - label: Label of this caller in the value of the key, which other clients show. 1 to 48 ASCII letters,
            ///   digits or characters of `._@-`. True writes the host and the process, False none. Default the
            ///   client's.
            ///
            /// Raises InvalidOption for an invalid value.
            ///
            $(#[$example])+
            #[pyo3(signature = (
                name: "str | collections.abc.Callable[..., str]",
                *args: "typing.Never",
                remember: "float | datetime.timedelta",
                ttl: "float | datetime.timedelta | None" = None,
                wait: "float | datetime.timedelta | None" = None,
                renew: "bool | None" = None,
                max_hold: "float | datetime.timedelta | None" = None,
                node_timeout: "float | datetime.timedelta | None" = None,
                label: "str | bool | None" = None,
                **kwargs: "typing.Never"
            ))]
            #[expect(clippy::too_many_arguments, reason = "each is an option with a name in Python")]
            fn once(
                &self,
                py: Python<'_>,
                name: &Bound<'_, PyAny>,
                args: &Bound<'_, PyTuple>,
                remember: &Bound<'_, PyAny>,
                ttl: Option<&Bound<'_, PyAny>>,
                wait: Option<&Bound<'_, PyAny>>,
                renew: Option<&Bound<'_, PyAny>>,
                max_hold: Option<&Bound<'_, PyAny>>,
                node_timeout: Option<&Bound<'_, PyAny>>,
                label: Option<&Bound<'_, PyAny>>,
                kwargs: Option<&Bound<'_, PyDict>>,
            ) -> PyResult<$made> {
                let options = options!(remember, ttl, wait, renew, max_hold, node_timeout, label);
                let lock = described(py, (self.source(), name), options, args, kwargs)?;
                Ok($made { lock })
            }
        }
    };
}

/// Describes a function that runs once in the time `remember`, over all clients. Nothing is sent.
///
/// It runs under the lock of this name, whose key is kept after a success. A function that raises and a process
/// that dies leave no memory, so the next call runs it again. Do not use the same name for a lock. For a
/// decorator, the name may contain parameters of the decorated function in braces.
///
/// Each call looks up the default client, which `configure` sets.
///
/// - remember: How long a successful run is remembered, in seconds or as a timedelta, from its start. Required.
/// - ttl: Time in seconds until the run of a process that died may be repeated. The lease is renewed while the
///   function runs. Minimum 0.1, default 10.
/// - wait: Maximum time in seconds to wait while another caller runs the function, and for failed nodes.
///   Default 0, which raises LockTimeout at once.
/// - renew: Whether to renew the lease every third of the ttl. Default True.
/// - max_hold: Maximum time in seconds that a run takes. The lease is then lost. Default None, which sets no
///   limit.
/// - node_timeout: Timeout for the reply of one node, in seconds. Default the client's, else min(1, ttl / 5),
///   with `fsync` min(2, ttl / 5).
/// - label: Label of this caller in the value of the key, which other clients show. 1 to 48 ASCII letters,
///   digits or characters of `._@-`. True writes the host and the process, False none. Default the client's.
///
/// Raises InvalidOption for an invalid value.
///
///     >>> @redlock.once("payment:{id}", remember=86400)
///     ... def charge(id): return "charged"
///     >>> charge(42), charge(42)
///     ('charged', None)
#[pyfunction]
#[pyo3(signature = (
    name: "str | collections.abc.Callable[..., str]",
    *args: "typing.Never",
    remember: "float | datetime.timedelta",
    ttl: "float | datetime.timedelta | None" = None,
    wait: "float | datetime.timedelta | None" = None,
    renew: "bool | None" = None,
    max_hold: "float | datetime.timedelta | None" = None,
    node_timeout: "float | datetime.timedelta | None" = None,
    label: "str | bool | None" = None,
    **kwargs: "typing.Never"
))]
#[expect(clippy::too_many_arguments, reason = "each is an option with a name in Python")]
pub(crate) fn once(
    py: Python<'_>,
    name: &Bound<'_, PyAny>,
    args: &Bound<'_, PyTuple>,
    remember: &Bound<'_, PyAny>,
    ttl: Option<&Bound<'_, PyAny>>,
    wait: Option<&Bound<'_, PyAny>>,
    renew: Option<&Bound<'_, PyAny>>,
    max_hold: Option<&Bound<'_, PyAny>>,
    node_timeout: Option<&Bound<'_, PyAny>>,
    label: Option<&Bound<'_, PyAny>>,
    kwargs: Option<&Bound<'_, PyDict>>,
) -> PyResult<Once> {
    let options = options!(remember, ttl, wait, renew, max_hold, node_timeout, label);
    Ok(Once { lock: described(py, (ClientSource::Default, name), options, args, kwargs)? })
}

method! {
    Redlock -> Once;
    ///     >>> ran, value = client.once("payment:42", remember=86400).run(len, "charged")
    ///     >>> ran, value
    ///     (True, 7)
    ///     >>> @client.once("payment:{id}", remember=86400)
    ///     ... def charge(id): return "charged"
    ///     >>> charge(42), charge(43)  # None: the first ran before
    ///     (None, 'charged')
}

method! {
    AsyncRedlock -> AsyncOnce;
    ///     >>> async with redlock.AsyncRedlock("memory://") as client:
    ///     ...     @client.once("payment:{id}", remember=86400)
    ///     ...     async def charge(id): return "charged"
    ///     ...     await charge(42), await charge(42)
    ///     ('charged', None)
}

impl Redlock {
    fn source(&self) -> ClientSource {
        ClientSource::Client(self.client.clone())
    }
}

impl AsyncRedlock {
    fn source(&self) -> ClientSource {
        self.client.get().source()
    }
}
