//! Generates the functions and methods that describe a lock, or a body that runs under one, with their options.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use redlock::ffi::{Described, LockArgs};

use crate::client::Redlock;
use crate::client::async_client::AsyncRedlock;
use crate::lock::async_lock::AsyncLock;
use crate::lock::{Lock, Names};
use crate::options::{Given, lock_args, refuse_lock};
use crate::source::ClientSource;

/// The client and the names of a lock.
pub(crate) type Parts = PyResult<(ClientSource, Names)>;

/// A class whose methods describe locks. They receive `N` names: the sides of a read/write lock have one already.
pub(crate) trait Describes<const N: usize> {
    fn parts(&self, py: Python<'_>, name: [&Bound<'_, PyAny>; N]) -> Parts;
}

impl Describes<1> for Redlock {
    fn parts(&self, _: Python<'_>, [name]: [&Bound<'_, PyAny>; 1]) -> Parts {
        Ok((ClientSource::Client(self.client.clone()), Names::given(name)?))
    }
}

impl Describes<1> for AsyncRedlock {
    fn parts(&self, py: Python<'_>, name: [&Bound<'_, PyAny>; 1]) -> Parts {
        self.client.get().parts(py, name)
    }
}

/// A class of locks, or of bodies that run under one.
pub(crate) trait FromLock: Sized {
    fn from_lock(py: Python<'_>, lock: Lock) -> PyResult<Self>;
}

impl FromLock for Lock {
    fn from_lock(_: Python<'_>, lock: Lock) -> PyResult<Self> {
        Ok(lock)
    }
}

impl FromLock for AsyncLock {
    fn from_lock(py: Python<'_>, lock: Lock) -> PyResult<Self> {
        Ok(Self::from_lock(Py::new(py, lock)?))
    }
}

/// Returns the options of a call. Rejects other arguments.
pub(crate) fn checked_options(
    described: Described,
    call: &str,
    options: &[Given<'_, '_>],
    args: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
) -> PyResult<LockArgs> {
    refuse_lock(described, call, args, kwargs)?;
    lock_args(described, options)
}

/// Generates one method with these options. Each option is a line of the docstring and a parameter instead of
/// `**options`, so that `inspect.signature`, type checkers and editors know it. Core validates the values.
macro_rules! method {
    (
        $class:ident -> $made:ident;
        $function:ident($described:expr, $call:literal);
        $($name:ident: $name_kind:tt)?;
        $(#[$about:meta])+;
        $(#[$example:meta])+;
        $($(#[$positional_about:meta])+ $positional:ident: $positional_kind:tt,)*;
        $($(#[$keyword_about:meta])+ $keyword:ident: $keyword_kind:tt,)*;
        $($(#[$option_about:meta])+ $option:ident: $kind:tt,)+
        $(; $default:ident: $default_kind:tt)?
    ) => {
        #[pymethods]
        impl $class {
            $(#[$about])+
            ///
            $($(#[$positional_about])+)*
            $($(#[$keyword_about])+)*
            $($(#[$option_about])+)+
            // `stringify!` makes the line part of the optional group.
            $(#[doc = concat!(
                "- ", stringify!($default), ": For decorators, the value that a call returns if it cannot acquire \
                 within `wait`. The\n  function does not run then. Without `default`, the call raises LockTimeout."
            )])?
            ///
            /// Raises InvalidOption for an invalid value.
            ///
            $(#[$example])+
            #[pyo3(signature = (
                $($name: $name_kind,)?
                $($positional: $positional_kind,)*
                *args: "typing.Never",
                $($keyword: $keyword_kind,)*
                $($default: $default_kind = crate::args::Anything::NotGiven,)?
                $($option: $kind = None,)+
                **kwargs: "typing.Never"
            ))]
            #[expect(clippy::too_many_arguments, reason = "each is an option with a name in Python")]
            fn $function(
                &self,
                py: Python<'_>,
                $($name: &Bound<'_, PyAny>,)?
                $($positional: &Bound<'_, PyAny>,)*
                args: &Bound<'_, PyTuple>,
                $($keyword: &Bound<'_, PyAny>,)*
                $($default: crate::args::Anything,)?
                $($option: Option<&Bound<'_, PyAny>>,)+
                kwargs: Option<&Bound<'_, PyDict>>,
            ) -> PyResult<$made> {
                let options = [
                    $((stringify!($positional), Some($positional)),)*
                    $((stringify!($keyword), Some($keyword)),)*
                    $((stringify!($option), $option)),+
                ];
                let options = checked_options($described, $call, &options, args, kwargs)?;
                let (source, names) = self.parts(py, [$($name)?])?;
                let lock = Lock::make(py, source, names, options)?;
                $(let lock = lock.with_default($default)?;)?
                FromLock::from_lock(py, lock)
            }
        }
    };
}

/// Generates the methods of both classes of clients, and the function of the default client.
///
/// After the name come the description, the sentence about the default client, and the examples of the function and of
/// both methods. Then come the required parameters before `*args`, those after it, the options, and `default` if a
/// decorator may have one.
macro_rules! functions {
    (
        $function:ident($described:expr, $call:literal) -> $made:ident, $made_async:ident;
        $name:ident: $name_kind:tt;
        $(#[$about:meta])+;
        $(#[$default_client:meta])+;
        $(#[$of_default:meta])+;
        $(#[$of_client:meta])+;
        $(#[$of_async:meta])+;
        $($(#[$positional_about:meta])+ $positional:ident: $positional_kind:tt,)*;
        $($(#[$keyword_about:meta])+ $keyword:ident: $keyword_kind:tt,)*;
        $($(#[$option_about:meta])+ $option:ident: $kind:tt,)+
        $(; $default:ident: $default_kind:tt)?
    ) => {
        $(#[$about])+
        $(#[$default_client])+
        ///
        $($(#[$positional_about])+)*
        $($(#[$keyword_about])+)*
        $($(#[$option_about])+)+
        $(#[doc = concat!(
            "- ", stringify!($default), ": For decorators, the value that a call returns if it cannot acquire within \
             `wait`. The function\n  does not run then. Without `default`, the call raises LockTimeout."
        )])?
        ///
        /// Raises InvalidOption for an invalid value.
        ///
        $(#[$of_default])+
        #[pyfunction]
        #[pyo3(signature = (
            $name: $name_kind,
            $($positional: $positional_kind,)*
            *args: "typing.Never",
            $($keyword: $keyword_kind,)*
            $($default: $default_kind = crate::args::Anything::NotGiven,)?
            $($option: $kind = None,)+
            **kwargs: "typing.Never"
        ))]
        #[expect(clippy::too_many_arguments, reason = "each is an option with a name in Python")]
        pub(crate) fn $function(
            py: Python<'_>,
            $name: &Bound<'_, PyAny>,
            $($positional: &Bound<'_, PyAny>,)*
            args: &Bound<'_, PyTuple>,
            $($keyword: &Bound<'_, PyAny>,)*
            $($default: crate::args::Anything,)?
            $($option: Option<&Bound<'_, PyAny>>,)+
            kwargs: Option<&Bound<'_, PyDict>>,
        ) -> PyResult<$made> {
            let options = [
                $((stringify!($positional), Some($positional)),)*
                $((stringify!($keyword), Some($keyword)),)*
                $((stringify!($option), $option)),+
            ];
            let options = checked_options($described, $call, &options, args, kwargs)?;
            let lock = Lock::make(py, ClientSource::Default, Names::given($name)?, options)?;
            $(let lock = lock.with_default($default)?;)?
            FromLock::from_lock(py, lock)
        }

        method! {
            Redlock -> $made;
            $function($described, $call);
            $name: $name_kind;
            $(#[$about])+;
            $(#[$of_client])+;
            $($(#[$positional_about])+ $positional: $positional_kind,)*;
            $($(#[$keyword_about])+ $keyword: $keyword_kind,)*;
            $($(#[$option_about])+ $option: $kind,)+
            $(; $default: $default_kind)?
        }

        method! {
            AsyncRedlock -> $made_async;
            $function($described, $call);
            $name: $name_kind;
            $(#[$about])+;
            $(#[$of_async])+;
            $($(#[$positional_about])+ $positional: $positional_kind,)*;
            $($(#[$keyword_about])+ $keyword: $keyword_kind,)*;
            $($(#[$option_about])+ $option: $kind,)+
            $(; $default: $default_kind)?
        }
    };
}

pub(crate) use {functions, method};
