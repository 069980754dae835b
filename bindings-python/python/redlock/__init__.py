"""Distributed locks over Redis, with the same core in Rust, Python and Node.js.

    with redlock.lock("job", ttl=10) as lease:         # waits without the GIL
        ...
    async with redlock.lock("job", ttl=10) as lease:   # asyncio, cancels the body if the lease is lost
        ...

`lock` and `configure` use the default client. Create other clients with `Redlock`, or in asyncio with `AsyncRedlock`.
"""

# First, because it refuses subinterpreters.
from redlock import _interpreter as _interpreter

# isort: split
# These add Python methods to the native classes. They are imported here, not at the first use, so that a with statement
# never imports. Ctrl-C or a missing file could end an import.
from redlock import _asyncio as _asyncio
from redlock import _client as _client
from redlock import _leader as _leader
from redlock import _log as _log
from redlock import _once as _once
from redlock._current import current_lease
from redlock._native import (
    AsyncLeader,
    AsyncLease,
    AsyncLock,
    AsyncOnce,
    AsyncRedlock,
    AsyncRwLock,
    Inspection,
    Leader,
    Lease,
    Lock,
    NodeInspection,
    NodePing,
    Once,
    Ping,
    Redlock,
    RwLock,
    Stats,
    configure,
    leader,
    lock,
    once,
    rwlock,
    semaphore,
)
from redlock._native import __version__ as __version__
from redlock.errors import (
    ClientClosed,
    InvalidOption,
    LockError,
    LockLost,
    LockReleased,
    LockTimeout,
    NodeReport,
    QuorumUnavailable,
    Unsupported,
)

__all__ = [
    "AsyncLeader",
    "AsyncLease",
    "AsyncLock",
    "AsyncOnce",
    "AsyncRedlock",
    "AsyncRwLock",
    "ClientClosed",
    "Inspection",
    "InvalidOption",
    "Leader",
    "Lease",
    "Lock",
    "LockError",
    "LockLost",
    "LockReleased",
    "LockTimeout",
    "NodeInspection",
    "NodePing",
    "NodeReport",
    "Once",
    "Ping",
    "QuorumUnavailable",
    "Redlock",
    "RwLock",
    "Stats",
    "Unsupported",
    "configure",
    "current_lease",
    "leader",
    "lock",
    "once",
    "rwlock",
    "semaphore",
]
