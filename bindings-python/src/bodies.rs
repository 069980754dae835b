//! The classes and functions of bodies that run under a lock: one that runs once, and one that leads. Here is what both
//! have in common.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use redlock::ffi::Described;

use crate::call_site::CallSite;
use crate::client::Redlock;
use crate::client::async_client::AsyncRedlock;
use crate::lease::Lease;
use crate::lock::{Lock, Names};
use crate::options::{lock_args, refuse_lock};
use crate::source::ClientSource;

/// Generates the methods of a class. `$call` makes its objects, and `$example` shows the key.
macro_rules! class_methods {
    ($class:ident, $call:literal, $example:literal) => {
        crate::unsupported::no_constructor!($class, concat!($call, " makes one"));

        #[pymethods]
        impl $class {
            #[doc = concat!("The Redis key.\n\n    >>> ", $example)]
            #[getter]
            fn key(&self, py: Python<'_>) -> PyResult<String> {
                self.lock.get().key(py)
            }

            /// The lock under which the body runs.
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

/// Generates the method of a class of clients.
macro_rules! method {
    (
        $class:ident -> $made:ident;
        $function:ident($described:expr, $call:literal);
        name: $name_kind:tt;
        $(#[$about:meta])+;
        $(#[$example:meta])+;
        $($(#[$required_about:meta])+ $required:ident: $required_kind:tt,)*;
        $($(#[$option_about:meta])+ $option:ident: $kind:tt,)+
    ) => {
        #[pymethods]
        impl $class {
            $(#[$about])+
            ///
            $($(#[$required_about])+)*
            $($(#[$option_about])+)+
            ///
            /// Raises InvalidOption for an invalid value.
            ///
            $(#[$example])+
            #[pyo3(signature = (
                name: $name_kind,
                *args: "typing.Never",
                $($required: $required_kind,)*
                $($option: $kind = None,)+
                **kwargs: "typing.Never"
            ))]
            #[expect(clippy::too_many_arguments, reason = "each is an option with a name in Python")]
            fn $function(
                &self,
                name: &Bound<'_, PyAny>,
                args: &Bound<'_, PyTuple>,
                $($required: &Bound<'_, PyAny>,)*
                $($option: Option<&Bound<'_, PyAny>>,)+
                kwargs: Option<&Bound<'_, PyDict>>,
            ) -> PyResult<$made> {
                let options = &[
                    $((stringify!($required), Some($required)),)*
                    $((stringify!($option), $option)),+
                ];
                let lock = lock_of(self.source(), name, $described, $call, options, args, kwargs)?;
                Ok($made { lock })
            }
        }
    };
}

/// Generates the methods of both classes of clients, and the function of the default client.
macro_rules! functions {
    (
        $function:ident($described:expr, $call:literal) -> $made:ident, $made_async:ident;
        name: $name_kind:tt;
        $(#[$about:meta])+;
        $(#[$of_default:meta])+;
        $(#[$of_client:meta])+;
        $(#[$of_async:meta])+;
        $($(#[$required_about:meta])+ $required:ident: $required_kind:tt,)*;
        $($(#[$option_about:meta])+ $option:ident: $kind:tt,)+
    ) => {
        $(#[$about])+
        ///
        /// Each call looks up the default client, which `configure` sets.
        ///
        $($(#[$required_about])+)*
        $($(#[$option_about])+)+
        ///
        /// Raises InvalidOption for an invalid value.
        ///
        $(#[$of_default])+
        #[pyfunction]
        #[pyo3(signature = (
            name: $name_kind,
            *args: "typing.Never",
            $($required: $required_kind,)*
            $($option: $kind = None,)+
            **kwargs: "typing.Never"
        ))]
        #[expect(clippy::too_many_arguments, reason = "each is an option with a name in Python")]
        pub(crate) fn $function(
            name: &Bound<'_, PyAny>,
            args: &Bound<'_, PyTuple>,
            $($required: &Bound<'_, PyAny>,)*
            $($option: Option<&Bound<'_, PyAny>>,)+
            kwargs: Option<&Bound<'_, PyDict>>,
        ) -> PyResult<$made> {
            let options = &[
                $((stringify!($required), Some($required)),)*
                $((stringify!($option), $option)),+
            ];
            let source = ClientSource::Default;
            let lock = lock_of(source, name, $described, $call, options, args, kwargs)?;
            Ok($made { lock })
        }

        method! {
            Redlock -> $made;
            $function($described, $call);
            name: $name_kind;
            $(#[$about])+;
            $(#[$of_client])+;
            $($(#[$required_about])+ $required: $required_kind,)*;
            $($(#[$option_about])+ $option: $kind,)+
        }

        method! {
            AsyncRedlock -> $made_async;
            $function($described, $call);
            name: $name_kind;
            $(#[$about])+;
            $(#[$of_async])+;
            $($(#[$required_about])+ $required: $required_kind,)*;
            $($(#[$option_about])+ $option: $kind,)+
        }
    };
}

pub(crate) use {class_methods, functions, method};

/// The lock of a body with these options of the function `described`.
pub(crate) fn lock_of(
    source: ClientSource,
    name: &Bound<'_, PyAny>,
    described: Described,
    call: &str,
    options: &[(&'static str, Option<&Bound<'_, PyAny>>)],
    args: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
) -> PyResult<Py<Lock>> {
    refuse_lock(described, call, args, kwargs)?;
    let options = lock_args(described, options)?;
    let py = name.py();
    Py::new(py, Lock::make(py, source, Names::given(name)?, options)?)
}

#[pymethods]
impl Lock {
    /// Acquires the lock for a body, for the code at `site`. Returns None if a run is remembered. `instead` is what to
    /// use in a running event loop.
    #[pyo3(signature = (site: "tuple[types.CodeType, int]", instead: "str") -> "Lease | None")]
    fn _acquire(
        &self,
        py: Python<'_>,
        site: CallSite,
        instead: &str,
    ) -> PyResult<Option<Py<Lease>>> {
        self.warn_of_loop(py, instead)?;
        self.acquired(py, site, Some(None))
    }
}

impl Redlock {
    pub(crate) fn source(&self) -> ClientSource {
        ClientSource::Client(self.client.clone())
    }
}

impl AsyncRedlock {
    pub(crate) fn source(&self) -> ClientSource {
        self.client.get().source()
    }
}
