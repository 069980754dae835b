//! The `lock` and `semaphore` functions of both client classes and of the default client, and the sides of a read/write
//! lock, with their options.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use redlock::ffi::Described;

use crate::client::Redlock;
use crate::client::async_client::AsyncRedlock;
use crate::function_macros::{Describes, FromLock, Parts, checked_options, functions, method};
use crate::lock::async_lock::AsyncLock;
use crate::lock::{Lock, Names};
use crate::rwlock::{AsyncRwLock, RwLock};
use crate::source::ClientSource;

impl Describes<0> for RwLock {
    fn parts(&self, py: Python<'_>, _: [&Bound<'_, PyAny>; 0]) -> Parts {
        Ok(self.writer.parts(py))
    }
}

impl Describes<0> for AsyncRwLock {
    fn parts(&self, py: Python<'_>, name: [&Bound<'_, PyAny>; 0]) -> Parts {
        self.as_sync(py).get().parts(py, name)
    }
}

/// Generates a side of both classes of a read/write lock.
macro_rules! side {
    (
        $function:ident($described:expr, $call:literal);
        $(#[$about:meta])+;
        $(#[$of_sync:meta])+;
        $(#[$of_async:meta])+;
        $($(#[$option_about:meta])+ $option:ident: $kind:tt,)+
    ) => {
        method! {
            RwLock -> Lock;
            $function($described, $call);
            ;
            $(#[$about])+;
            $(#[$of_sync])+;
            ;
            ;
            $($(#[$option_about])+ $option: $kind,)+
            ; default: "_D"
        }

        method! {
            AsyncRwLock -> AsyncLock;
            $function($described, $call);
            ;
            $(#[$about])+;
            $(#[$of_async])+;
            ;
            ;
            $($(#[$option_about])+ $option: $kind,)+
            ; default: "_D"
        }
    };
}

functions! {
    lock(Described::Lock, "lock()") -> Lock, AsyncLock;
    name: "str | list[str] | tuple[str, ...] | collections.abc.Callable[..., str | list[str]]";
    /// Describes a lock on one name, or on several (1,000 at most) as one. Nothing is sent.
    ///
    /// Times are seconds or timedelta. For a decorator, the name may contain parameters of the decorated function in
    /// braces. It may also be a function that receives the arguments that it names.
    ;
    /// Each acquire looks up the default client, which `configure` sets.
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
    /// - min_hold: Minimum time in seconds to keep the key, even if the lease is released earlier. Default 0.
    min_hold: "float | datetime.timedelta | None",
    /// - node_timeout: Timeout for the reply of one node, in seconds. Default the client's, else min(1, ttl / 5),
    ///   with `fsync` min(3, ttl / 3).
    node_timeout: "float | datetime.timedelta | None",
    /// - fencing: Whether to issue a fencing token, available as `lease.fencing_token`. Default False.
    fencing: "bool | None",
    /// - label: Label of this holder in the value of the key, which other clients show as the holder. 1 to 48 ASCII
    ///   letters, digits or characters of `._@-`. True writes the host and the process, False none. Every client that
    ///   can read the keys sees it. Default the client's.
    label: "str | bool | None",
    ; default: "_D"
}

functions! {
    semaphore(Described::Semaphore, "semaphore()") -> Lock, AsyncLock;
    name: "str | list[str] | tuple[str, ...] | collections.abc.Callable[..., str | list[str]]";
    /// Describes a semaphore: at most `limit` of its permits have owners at a time. Nothing is sent.
    ///
    /// It is used like a lock, and each lease has one permit, or `permits`. Each permit is a key that expires with its
    /// lease, so a process that dies loses none. Fencing tokens and `attach` are not available.
    ;
    /// Each acquire looks up the default client, which `configure` sets.
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
    ///   `min_hold=1`, at most `limit` leases begin in any second. Default 0.
    min_hold: "float | datetime.timedelta | None",
    /// - node_timeout: Timeout for the reply of one node, in seconds. Default the client's, else min(1, ttl / 5),
    ///   with `fsync` min(3, ttl / 3).
    node_timeout: "float | datetime.timedelta | None",
    /// - label: Label of this holder in the value of the keys, which `inspect` shows. 1 to 48 ASCII letters, digits or
    ///   characters of `._@-`. True writes the host and the process, False none. Default the client's.
    label: "str | bool | None",
    ; default: "_D"
}

side! {
    read(Described::Side { shared: true }, "read()");
    /// Describes the lock of a reader, which other readers share. Nothing is sent.
    ///
    /// A waiting writer comes before further readers, so do not acquire it again while you hold it: both may wait for
    /// each other. A reader that dies delays a writer by its TTL and at most one second more. Fencing tokens and
    /// `min_hold` are not available.
    ;
    ///     >>> config = client.rwlock("config")
    ///     >>> with config.read(ttl=10) as lease:
    ///     ...     config.read().inspect().mode
    ///     'read'
    ;
    ///     >>> async with redlock.AsyncRedlock("memory://") as client:
    ///     ...     async with client.rwlock("config").read(wait=5) as lease:
    ///     ...         lease.key
    ///     'lock:config'
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
    /// - node_timeout: Timeout for the reply of one node, in seconds. Default the client's, else min(1, ttl / 5),
    ///   with `fsync` min(3, ttl / 3).
    node_timeout: "float | datetime.timedelta | None",
    /// - label: Label of this holder in the value of the key, which other clients show as the holder. 1 to 48 ASCII
    ///   letters, digits or characters of `._@-`. True writes the host and the process, False none. Every client that
    ///   can read the keys sees it. Default the client's.
    label: "str | bool | None",
}

side! {
    write(Described::Side { shared: false }, "write()");
    /// Describes the lock of a writer, which excludes everyone. Nothing is sent.
    ///
    /// `lock()` on the same name excludes readers and writers too, but takes no turns with waiting readers.
    ;
    ///     >>> config = client.rwlock("config")
    ///     >>> with config.write(ttl=10):
    ///     ...     config.read().try_acquire() is None
    ///     True
    ;
    ///     >>> async with redlock.AsyncRedlock("memory://") as client:
    ///     ...     async with client.rwlock("config").write(fencing=True) as lease:
    ///     ...         lease.fencing_token > 0
    ///     True
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
    /// - min_hold: Minimum time in seconds to keep the key, even if the lease is released earlier. Default 0.
    min_hold: "float | datetime.timedelta | None",
    /// - node_timeout: Timeout for the reply of one node, in seconds. Default the client's, else min(1, ttl / 5),
    ///   with `fsync` min(3, ttl / 3).
    node_timeout: "float | datetime.timedelta | None",
    /// - fencing: Whether to issue a fencing token, available as `lease.fencing_token`. Default False.
    fencing: "bool | None",
    /// - label: Label of this holder in the value of the key, which other clients show as the holder. 1 to 48 ASCII
    ///   letters, digits or characters of `._@-`. True writes the host and the process, False none. Every client that
    ///   can read the keys sees it. Default the client's.
    label: "str | bool | None",
}
