//! The functions that describe a lock, of both classes of clients and of the default client. All have the same options,
//! which are defined once, here.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::args::Anything;
use crate::client::Redlock;
use crate::client::async_client::AsyncRedlock;
use crate::lock::async_lock::AsyncLock;
use crate::lock::{Lock, Names};
use crate::options::{lock_args, refuse_lock};
use crate::source::Source;

/// Writes the functions with these options, each a line of the docstring and a parameter: no `**options`, so that
/// `inspect.signature`, type checkers and editors know them. What an option takes and does is core's table's to know.
macro_rules! lock_functions {
    ($($(#[$($about:tt)+])+ $option:ident: $kind:tt,)+) => {
        /// Describes a lock of the default client, which is looked up at each acquire: see `configure`.
        ///
        /// One name, or several as one; times are seconds or timedelta. As a decorator's, the name may have braces around the
        /// decorated function's parameters, or be a function that gets those it asks for.
        ///
        $($(#[$($about)+])+)+
        /// - default: for decorators, the value that a call returns, without running, if it cannot get the lock within `wait`;
        ///   not given: LockTimeout
        ///
        /// Raises InvalidOption for a value that breaks a rule.
        ///
        ///     >>> with redlock.lock("job", ttl=10) as lease:
        ///     ...     lease.held
        ///     True
        #[pyfunction]
        #[pyo3(signature = (
            name: "str | list[str] | tuple[str, ...] | collections.abc.Callable[..., str | list[str]]",
            *args: "typing.Never",
            default: "_D" = Anything::NotGiven,
            $($option: $kind = None,)+
            **kwargs: "typing.Never"
        ))]
        #[expect(clippy::too_many_arguments, reason = "each is an option with a name in Python")]
        pub(crate) fn lock(
            py: Python<'_>,
            name: &Bound<'_, PyAny>,
            args: &Bound<'_, PyTuple>,
            default: Anything,
            $($option: Option<&Bound<'_, PyAny>>,)+
            kwargs: Option<&Bound<'_, PyDict>>,
        ) -> PyResult<Lock> {
            refuse_lock("lock()", args, kwargs)?;
            let options = lock_args(&[$((stringify!($option), $option)),+])?;
            Lock::decorating(py, Source::Default, Names::given(name)?, options, default)
        }

        #[pymethods]
        impl Redlock {
            /// Describes a lock on one name, or on several (1,000 at most) as one; nothing is sent. Times are seconds or timedelta.
            ///
            /// As a decorator's, the name may have braces around the decorated function's parameters, or be a function that
            /// gets those it asks for.
            ///
            $($(#[$($about)+])+)+
            /// - default: for decorators, the value that a call returns, without running, if it cannot get the lock within `wait`;
            ///   not given: LockTimeout
            ///
            /// Raises InvalidOption for a value that breaks a rule.
            ///
            ///     >>> lock = client.lock("job", ttl=10, wait=5)
            ///     >>> with lock as lease:
            ///     ...     lease.remaining > 9
            ///     True
            #[pyo3(signature = (
                name: "str | list[str] | tuple[str, ...] | collections.abc.Callable[..., str | list[str]]",
                *args: "typing.Never",
                default: "_D" = Anything::NotGiven,
                $($option: $kind = None,)+
                **kwargs: "typing.Never"
            ))]
            #[expect(clippy::too_many_arguments, reason = "each is an option with a name in Python")]
            fn lock(
                &self,
                py: Python<'_>,
                name: &Bound<'_, PyAny>,
                args: &Bound<'_, PyTuple>,
                default: Anything,
                $($option: Option<&Bound<'_, PyAny>>,)+
                kwargs: Option<&Bound<'_, PyDict>>,
            ) -> PyResult<Lock> {
                refuse_lock("lock()", args, kwargs)?;
                let options = lock_args(&[$((stringify!($option), $option)),+])?;
                let source = Source::Client(self.client.clone());
                Lock::decorating(py, source, Names::given(name)?, options, default)
            }
        }

        #[pymethods]
        impl AsyncRedlock {
            /// Describes a lock on one name, or on several (1,000 at most) as one. Nothing is sent.
            ///
            /// Times are seconds or timedelta. For a decorator, the name may contain parameters of the decorated function in
            /// braces. It may also be a function that receives the arguments that it names.
            ///
            $($(#[$($about)+])+)+
            /// - default: for decorators, the value that a call returns, without running, if it cannot get the lock within `wait`;
            ///   not given: LockTimeout
            ///
            /// Raises InvalidOption for an invalid value.
            ///
            ///     >>> async with redlock.AsyncRedlock("memory://") as client:
            ///     ...     async with client.lock("job", ttl=10, wait=5) as lease:
            ///     ...         lease.remaining > 9
            ///     True
            #[pyo3(signature = (
                name: "str | list[str] | tuple[str, ...] | collections.abc.Callable[..., str | list[str]]",
                *args: "typing.Never",
                default: "_D" = Anything::NotGiven,
                $($option: $kind = None,)+
                **kwargs: "typing.Never"
            ))]
            #[expect(clippy::too_many_arguments, reason = "each is an option with a name in Python")]
            fn lock(
                &self,
                py: Python<'_>,
                name: &Bound<'_, PyAny>,
                args: &Bound<'_, PyTuple>,
                default: Anything,
                $($option: Option<&Bound<'_, PyAny>>,)+
                kwargs: Option<&Bound<'_, PyDict>>,
            ) -> PyResult<AsyncLock> {
                refuse_lock("lock()", args, kwargs)?;
                let options = lock_args(&[$((stringify!($option), $option)),+])?;
                let source = Source::Client(self.client.get().client.clone());
                let lock = Lock::decorating(py, source, Names::given(name)?, options, default)?;
                Ok(AsyncLock::of(Py::new(py, lock)?))
            }
        }
    };
}

lock_functions! {
    /// - ttl: how long the lease lives without renewal; at least 0.1, default 10
    ttl: "float | datetime.timedelta | None",
    /// - wait: how long an acquire may wait, for the holder and for failed nodes; 0: one round; default None: for ever for the
    ///   holder, and for failed nodes by the client's `unavailable_after`
    wait: "float | datetime.timedelta | None",
    /// - renew: whether to extend at a third of the ttl until released; default True
    renew: "bool | None",
    /// - max_hold: upper bound on the whole hold, at which the lease is lost; default None: no bound
    max_hold: "float | datetime.timedelta | None",
    /// - min_hold: how long the key stays after the acquire, even if the lease is released before; default 0
    min_hold: "float | datetime.timedelta | None",
    /// - node_timeout: how long to wait for one node's answer; default the client's, else min(1, ttl / 5)
    node_timeout: "float | datetime.timedelta | None",
    /// - fencing: whether to ask for a fencing token, `lease.fencing_token`; default False
    fencing: "bool | None",
}
