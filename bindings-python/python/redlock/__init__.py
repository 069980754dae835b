"""One lock over Redis, the same in Rust, Python and Node.

    with redlock.lock("job", ttl=10) as lease:         # blocks without the GIL
        ...
    async with redlock.lock("job", ttl=10) as lease:   # asyncio: the body is cancelled if the lease is lost
        ...

`lock` and `configure` use the default client; `Redlock` makes others.
"""

# Gives the native classes their methods for asyncio. Not at first use: a with statement must not end in the middle of
# an import, by Ctrl-C or for want of a file.
from redlock import _asyncio as _asyncio
from redlock import _client as _client
from redlock import _log as _log
from redlock._native import Inspection, Lease, Lock, NodeInspection, Redlock, Stats, configure, lock
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
    "ClientClosed",
    "Inspection",
    "InvalidOption",
    "Lease",
    "Lock",
    "LockError",
    "LockLost",
    "LockReleased",
    "LockTimeout",
    "NodeInspection",
    "NodeReport",
    "QuorumUnavailable",
    "Redlock",
    "Stats",
    "Unsupported",
    "configure",
    "lock",
]
