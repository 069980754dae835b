//! The classes `Once` and `AsyncOnce`: a function that runs unless it ran with success within a given time.
//! `redlock._once` adds the methods that run it.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use pyo3::{PyTraverseError, PyVisit};
use redlock::ffi::Described;

use crate::bodies::class_methods;
use crate::client::Redlock;
use crate::client::async_client::AsyncRedlock;
use crate::function_macros::{Describes, FromLock, checked_options, functions, method};
use crate::lock::{Lock, Names};
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

class_methods!(
    Once,
    "client.once(name, remember=...)",
    "client.once(\"payment:42\", remember=60).key\n    'lock:payment:42'"
);
class_methods!(
    AsyncOnce,
    "client.once(name, remember=...)",
    "client.as_async().once(\"payment:42\", remember=60).key\n    'lock:payment:42'"
);

functions! {
    once(Described::Once, "once()") -> Once, AsyncOnce;
    name: "str | collections.abc.Callable[..., str]";
    /// Describes a function that runs once in the time `remember`, over all clients. Nothing is sent.
    ///
    /// It runs under the lock of this name, whose key is kept after a success. A function that raises and a process
    /// that dies leave no memory, so the next call runs it again. Do not use the same name for a lock. For a
    /// decorator, the name may contain parameters of the decorated function in braces.
    ;
    ///
    /// Each call looks up the default client, which `configure` sets.
    ;
    ///     >>> @redlock.once("payment:{id}", remember=86400)
    ///     ... def charge(id): return "charged"
    ///     >>> charge(42), charge(42)
    ///     ('charged', None)
    ;
    ///     >>> ran, value = client.once("payment:42", remember=86400).run(len, "charged")
    ///     >>> ran, value
    ///     (True, 7)
    ///     >>> @client.once("payment:{id}", remember=86400)
    ///     ... def charge(id): return "charged"
    ///     >>> charge(42), charge(43)  # None: the first ran before
    ///     (None, 'charged')
    ;
    ///     >>> async with redlock.AsyncRedlock("memory://") as client:
    ///     ...     @client.once("payment:{id}", remember=86400)
    ///     ...     async def charge(id): return "charged"
    ///     ...     await charge(42), await charge(42)
    ///     ('charged', None)
    ;
    ;
    /// - remember: How long a successful run is remembered, in seconds or as a timedelta, from its start. Required.
    remember: "float | datetime.timedelta",
    ;
    /// - ttl: Time in seconds until the run of a process that died may be repeated. The lease is renewed while the
    ///   function runs. Minimum 0.1, default 10.
    ttl: "float | datetime.timedelta | None",
    /// - wait: Maximum time in seconds to wait while another caller runs the function, and for failed nodes.
    ///   Default 0, which raises LockTimeout at once.
    wait: "float | datetime.timedelta | None",
    /// - renew: Whether to renew the lease every third of the ttl. Default True.
    renew: "bool | None",
    /// - max_hold: Maximum time in seconds that a run takes. The lease is then lost. Default None, which sets no
    ///   limit.
    max_hold: "float | datetime.timedelta | None",
    /// - node_timeout: Timeout for the reply of one node, in seconds. Default the client's, else min(1, ttl / 5),
    ///   with `fsync` min(3, ttl / 3).
    node_timeout: "float | datetime.timedelta | None",
    /// - label: Label of this caller in the value of the key, which other clients show. 1 to 48 ASCII letters,
    ///   digits or characters of `._@-`. True writes the host and the process, False none. Default the client's.
    label: "str | bool | None",
}
