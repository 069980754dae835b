//! The `lock` and `semaphore` functions of both client classes and of the default client, with their options.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::args::Anything;
use crate::client::Redlock;
use crate::client::async_client::AsyncRedlock;
use crate::lock::async_lock::AsyncLock;
use crate::lock::{Lock, Names};
use crate::options::{lock_args, refuse_lock, refuse_semaphore, semaphore_args};
use crate::source::ClientSource;

/// Generates the functions with these options. Each option is a line of the docstring and a parameter instead of
/// `**options`, so that `inspect.signature`, type checkers and editors know it. Core validates the values.
macro_rules! functions {
    (
        $function:ident($refuse:ident, $convert:ident, $call:literal);
        $(#[$about:meta])+;
        $(#[$of_default:meta])+;
        $(#[$of_client:meta])+;
        $(#[$of_async:meta])+;
        $($(#[$required_about:meta])+ $required:ident: $required_kind:tt,)*;
        $($(#[$option_about:meta])+ $option:ident: $kind:tt,)+
    ) => {
        $(#[$about])+
        /// Each acquire looks up the default client, which `configure` sets.
        ///
        $($(#[$required_about])+)*
        $($(#[$option_about])+)+
        /// - default: For decorators, the value that a call returns if it cannot acquire within `wait`. The function
        ///   does not run then. Without `default`, the call raises LockTimeout.
        ///
        /// Raises InvalidOption for an invalid value.
        ///
        $(#[$of_default])+
        #[pyfunction]
        #[pyo3(signature = (
            name: "str | list[str] | tuple[str, ...] | collections.abc.Callable[..., str | list[str]]",
            $($required: $required_kind,)*
            *args: "typing.Never",
            default: "_D" = Anything::NotGiven,
            $($option: $kind = None,)+
            **kwargs: "typing.Never"
        ))]
        #[expect(clippy::too_many_arguments, reason = "each is an option with a name in Python")]
        pub(crate) fn $function(
            py: Python<'_>,
            name: &Bound<'_, PyAny>,
            $($required: &Bound<'_, PyAny>,)*
            args: &Bound<'_, PyTuple>,
            default: Anything,
            $($option: Option<&Bound<'_, PyAny>>,)+
            kwargs: Option<&Bound<'_, PyDict>>,
        ) -> PyResult<Lock> {
            $refuse($call, args, kwargs)?;
            let options = $convert(&[
                $((stringify!($required), Some($required)),)*
                $((stringify!($option), $option)),+
            ])?;
            Lock::decorating(py, ClientSource::Default, Names::given(name)?, options, default)
        }

        #[pymethods]
        impl Redlock {
            $(#[$about])+
            ///
            $($(#[$required_about])+)*
            $($(#[$option_about])+)+
            /// - default: For decorators, the value that a call returns if it cannot acquire within `wait`. The
            ///   function does not run then. Without `default`, the call raises LockTimeout.
            ///
            /// Raises InvalidOption for an invalid value.
            ///
            $(#[$of_client])+
            #[pyo3(signature = (
                name: "str | list[str] | tuple[str, ...] | collections.abc.Callable[..., str | list[str]]",
                $($required: $required_kind,)*
                *args: "typing.Never",
                default: "_D" = Anything::NotGiven,
                $($option: $kind = None,)+
                **kwargs: "typing.Never"
            ))]
            #[expect(clippy::too_many_arguments, reason = "each is an option with a name in Python")]
            fn $function(
                &self,
                py: Python<'_>,
                name: &Bound<'_, PyAny>,
                $($required: &Bound<'_, PyAny>,)*
                args: &Bound<'_, PyTuple>,
                default: Anything,
                $($option: Option<&Bound<'_, PyAny>>,)+
                kwargs: Option<&Bound<'_, PyDict>>,
            ) -> PyResult<Lock> {
                $refuse($call, args, kwargs)?;
                let options = $convert(&[
                    $((stringify!($required), Some($required)),)*
                    $((stringify!($option), $option)),+
                ])?;
                let source = ClientSource::Client(self.client.clone());
                Lock::decorating(py, source, Names::given(name)?, options, default)
            }
        }

        #[pymethods]
        impl AsyncRedlock {
            $(#[$about])+
            ///
            $($(#[$required_about])+)*
            $($(#[$option_about])+)+
            /// - default: For decorators, the value that a call returns if it cannot acquire within `wait`. The
            ///   function does not run then. Without `default`, the call raises LockTimeout.
            ///
            /// Raises InvalidOption for an invalid value.
            ///
            $(#[$of_async])+
            #[pyo3(signature = (
                name: "str | list[str] | tuple[str, ...] | collections.abc.Callable[..., str | list[str]]",
                $($required: $required_kind,)*
                *args: "typing.Never",
                default: "_D" = Anything::NotGiven,
                $($option: $kind = None,)+
                **kwargs: "typing.Never"
            ))]
            #[expect(clippy::too_many_arguments, reason = "each is an option with a name in Python")]
            fn $function(
                &self,
                py: Python<'_>,
                name: &Bound<'_, PyAny>,
                $($required: &Bound<'_, PyAny>,)*
                args: &Bound<'_, PyTuple>,
                default: Anything,
                $($option: Option<&Bound<'_, PyAny>>,)+
                kwargs: Option<&Bound<'_, PyDict>>,
            ) -> PyResult<AsyncLock> {
                $refuse($call, args, kwargs)?;
                let options = $convert(&[
                    $((stringify!($required), Some($required)),)*
                    $((stringify!($option), $option)),+
                ])?;
                let source = ClientSource::Client(self.client.get().client.clone());
                let lock = Lock::decorating(py, source, Names::given(name)?, options, default)?;
                Ok(AsyncLock::of(Py::new(py, lock)?))
            }
        }
    };
}

functions! {
    lock(refuse_lock, lock_args, "lock()");
    /// Describes a lock on one name, or on several (1,000 at most) as one. Nothing is sent.
    ///
    /// Times are seconds or timedelta. For a decorator, the name may contain parameters of the decorated function in
    /// braces. It may also be a function that receives the arguments that it names.
    ;
    ///     >>> with redlock.lock("job", ttl=10) as lease:
    ///     ...     lease.held
    ///     True
    ;
    ///     >>> lock = client.lock("job", ttl=10, wait=5)
    ///     >>> with lock as lease:
    ///     ...     lease.remaining > 9
    ///     True
    ;
    ///     >>> async with redlock.AsyncRedlock("memory://") as client:
    ///     ...     async with client.lock("job", ttl=10, wait=5) as lease:
    ///     ...         lease.remaining > 9
    ///     True
    ;
    ;
    /// - ttl: Time in seconds until the lease expires, unless renewed. Minimum 0.1, default 10.
    ttl: "float | datetime.timedelta | None",
    /// - wait: Maximum time in seconds that an acquire waits, both for the holder and for failed nodes. 0 tries once.
    ///   Default None, which waits for the holder forever, and for failed nodes up to the client's `unavailable_after`.
    wait: "float | datetime.timedelta | None",
    /// - renew: Whether to renew the lease every third of the ttl until it is released. Default True.
    renew: "bool | None",
    /// - max_hold: Maximum time in seconds to hold the lock. The lease is then lost. Default None, which sets no limit.
    max_hold: "float | datetime.timedelta | None",
    /// - min_hold: Minimum time in seconds to keep the key, even if the lease is released earlier. Must not exceed
    ///   `ttl` or `max_hold`. Default 0.
    min_hold: "float | datetime.timedelta | None",
    /// - node_timeout: Timeout for the reply of one node, in seconds. Default the client's, else min(1, ttl / 5),
    ///   with `fsync` min(2, ttl / 5).
    node_timeout: "float | datetime.timedelta | None",
    /// - fencing: Whether to issue a fencing token, available as `lease.fencing_token`. Default False.
    fencing: "bool | None",
    /// - label: Label of this holder in the value of the key, which other clients show as the holder. 1 to 48 ASCII
    ///   letters, digits or characters of `._@-`. True writes the host and the process, False none. Every client that
    ///   can read the keys sees it. Default the client's.
    label: "str | bool | None",
}

functions! {
    semaphore(refuse_semaphore, semaphore_args, "semaphore()");
    /// Describes a semaphore: at most `limit` of its permits have owners at a time. Nothing is sent.
    ///
    /// It is used like a lock, and each lease has one permit, or `permits`. Each permit is a key that expires with its
    /// lease, so a process that dies loses none. Fencing tokens and `attach` are not available.
    ;
    ///     >>> with redlock.semaphore("exports", 2):
    ///     ...     with redlock.semaphore("exports", 2):
    ///     ...         redlock.semaphore("exports", 2).try_acquire() is None
    ///     True
    ;
    ///     >>> @client.semaphore("exports:{user}", 2, wait=0, default="busy")
    ///     ... def export(user): return len(user)
    ///     >>> export("eve")
    ///     3
    ;
    ///     >>> async with redlock.AsyncRedlock("memory://") as client:
    ///     ...     async with client.semaphore("gpu", 4, permits=3) as lease:
    ///     ...         len(lease.keys)
    ///     3
    ;
    /// - limit: Number of permits, 1 to 1000, and meant for up to 100. If clients use different limits, the largest
    ///   applies.
    limit: "int",
    ;
    /// - permits: Number of permits of each lease, up to `limit`. An acquire gets all of them or none. Default 1.
    permits: "int | None",
    /// - ttl: Time in seconds until the lease expires, unless renewed. Minimum 0.1, default 10.
    ttl: "float | datetime.timedelta | None",
    /// - wait: Maximum time in seconds that an acquire waits, both for permits and for failed nodes. 0 tries without
    ///   waiting, in up to four rounds. Default None, which waits for permits forever, and for failed nodes up to the
    ///   client's `unavailable_after`.
    wait: "float | datetime.timedelta | None",
    /// - renew: Whether to renew the lease every third of the ttl until it is released. Default True.
    renew: "bool | None",
    /// - max_hold: Maximum time in seconds to hold the permits. The lease is then lost. Default None, which sets no
    ///   limit.
    max_hold: "float | datetime.timedelta | None",
    /// - min_hold: Minimum time in seconds to keep the permits, even if the lease is released earlier. With
    ///   `min_hold=1`, at most `limit` leases begin in any second. Must not exceed `ttl` or `max_hold`. Default 0.
    min_hold: "float | datetime.timedelta | None",
    /// - node_timeout: Timeout for the reply of one node, in seconds. Default the client's, else min(1, ttl / 5),
    ///   with `fsync` min(2, ttl / 5).
    node_timeout: "float | datetime.timedelta | None",
    /// - label: Label of this holder in the value of the keys, which `inspect` shows. 1 to 48 ASCII letters, digits or
    ///   characters of `._@-`. True writes the host and the process, False none. Default the client's.
    label: "str | bool | None",
}
