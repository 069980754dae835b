"""
The Rust half of `redlock`.
"""

import asyncio
import collections.abc
import datetime
import os
import types
import typing
import redlock.errors
import redlock.types
from typing import Any, Final, final

_P = typing.ParamSpec("_P")
_D = typing.TypeVar("_D")
_T = typing.TypeVar("_T")
_R = typing.TypeVar("_R")
from typing_extensions import disjoint_base

__all__ = ["__version__", "AsyncLeader", "AsyncLease", "AsyncLock", "AsyncOnce", "AsyncRedlock", "AsyncRwLock", "Inspection", "Leader", "Lease", "Lock", "NodeInspection", "NodePing", "Once", "Ping", "Redlock", "RwLock", "Stats", "_Acquire", "_Steps", "_advance_memory", "_client", "_command_line", "_conclude", "_fail_memory", "_leader", "_lock", "_log_by", "_log_from", "_make_classes", "_now", "_observe_by", "_once", "_rwlock", "_set_trio", "_snapshot", "_step_memory", "_swap_default", "configure", "leader", "lock", "once", "rwlock", "semaphore"]

__version__: Final[str]
"""
The package's version, which is that of the crate and of the npm package.
"""

@final
class AsyncLeader:
    """
    A candidate of an election, of which at most one leads at a time, over all clients. For asyncio, trio and anyio.

    `run` campaigns, awaits a coroutine function while it leads, and campaigns again after a loss. `async with leader as
    lease:` leads for one term, until the block ends.

        >>> async with redlock.AsyncRedlock("memory://") as client:
        ...     async with client.leader("scheduler", label="web-3") as lease:
        ...         await client.leader("scheduler").current()
        'web-3'
    """
    async def run(self, function: collections.abc.Callable[typing.Concatenate[AsyncLease, _P], collections.abc.Coroutine[typing.Any, typing.Any, _R]], /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """
        Campaigns until it leads, awaits the function with the lease, and resigns when the function returns.

        A loss of the lease cancels the function. When it has ended, the next campaign begins. A cancellation of the
        caller ends the campaign, or cancels the function and resigns.

        Args:
            function: The coroutine function to call. It receives the lease of the term, and then these arguments.
            *args: Its further arguments.
            **kwargs: Its keyword arguments.

        Returns:
            The result of the function.

        Raises:
            ClientClosed: The client was closed.
            QuorumUnavailable: The servers refuse the login or the commands. Other outages do not end a campaign.
            Unsupported: A server lacks what an option of the client needs.
            TypeError: The function is not a coroutine function, or returns an awaitable or a generator.

        Example:
            >>> async def schedule(lease, job):
            ...     return f"{job} done"
            >>> await client.as_async().leader("scheduler").run(schedule, "report")
            'report done'
        """
    async def current(self) -> str | None:
        """
        Asks the nodes for the leader.

        Returns:
            Its label, or None if there is none. It may be outdated when you read it. The label is empty if a client
            holds a plain lock of this name without a label.

        Raises:
            QuorumUnavailable: Fewer nodes than a quorum replied within `node_timeout`.
            ClientClosed: The client was closed.

        Example:
            >>> print(await client.as_async().leader("scheduler").current())
            None
        """
    async def __aenter__(self) -> AsyncLease: ...
    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None) -> None: ...
    def __new__(cls, /, *args: "typing.Never", **kwargs: "typing.Never") -> AsyncLeader: ...
    def __reduce__(self, /) -> "tuple[typing.Any, ...]": ...
    def __repr__(self, /) -> str: ...
    @property
    def _lock(self, /) -> Lock:
        """
        The lock under which the body runs.
        """
    def as_sync(self, /) -> Leader:
        """
        Returns the blocking form of this candidate.

            >>> client.as_async().leader("scheduler").as_sync()
            <redlock.Leader scheduler>
        """
    @property
    def is_leading(self, /) -> bool:
        """
        Whether this candidate leads at this moment. Does not contact a server.

            >>> client.as_async().leader("scheduler").is_leading
            False
        """
    @property
    def key(self, /) -> str:
        """
        The Redis key.

            >>> client.as_async().leader("scheduler").key
            'lock:scheduler'
        """

@final
class AsyncLease:
    """
    A lock that you hold, for asyncio, trio and anyio. It is renewed in the background until it is released or lost.

    `async with lease:` releases it at the end of the block. It raises LockLost if the lease has ended, and RuntimeError
    if it was entered before. A lease that is collected without a release is not released. Its renewal stops, the key
    expires when its TTL ends, and a ResourceWarning shows where it was acquired.

        >>> lease = await lock.as_async().acquire()
        >>> async with lease:
        ...     lease.held
        True
    """
    async def extend(self, ttl: float | datetime.timedelta | None=None) -> None:
        """
        Makes the lease last at least `ttl` from now, but not beyond `max_hold`. Never shortens it.

        Args:
            ttl: Seconds or a timedelta, at least 0.1. Default: the lease's own `ttl`. Later renewals use it.

        Raises:
            LockLost: The lease has ended.
            QuorumUnavailable: Too few nodes replied. The lease then lasts as long as before.
            InvalidOption: `ttl` is below 0.1, or above `restart_guard` while that is on.

        Example:
            >>> async with lock as lease:
            ...     await lease.extend(ttl=30)
        """
    async def release(self) -> None:
        """
        Releases the lock. A second call does nothing.

        A cancellation only ends the wait for the confirmation, because the release has been sent.

        Raises:
            LockLost: The lease was lost.
            QuorumUnavailable: Too few nodes confirmed within `node_timeout`. The keys expire when their TTL ends.

        Example:
            >>> async with lock as lease:
            ...     await lease.release()
        """
    async def __aenter__(self) -> AsyncLease: ...
    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None) -> None: ...
    def __eq__(self, other: object, /) -> bool:
        """
        Two objects are equal if they are the same lease.
        """
    def __hash__(self, /) -> int: ...
    def __new__(cls, /, *args: "typing.Never", **kwargs: "typing.Never") -> AsyncLease: ...
    def __reduce__(self, /) -> "typing.NoReturn": ...
    def __repr__(self, /) -> str: ...
    @property
    def _lease(self, /) -> Lease:
        """
        The blocking form, which has the futures that `redlock._asyncio` awaits.
        """
    def as_sync(self, /) -> Lease:
        """
        Returns the blocking form of this lease. Both are the same lease: releasing either releases it.

            >>> lease.as_async().as_sync() is lease
            True
        """
    def detach(self, /) -> bool:
        """
        Ends the lease in this process and keeps the key. To transfer a lease, another process attaches to its `token`
        first.

        Returns:
            Whether the lease was still held.

        Example:
            >>> async with lock as lease:
            ...     lease.detach()
            True
        """
    def ensure_held(self, /) -> None:
        """
        Raises an error unless the lease is valid. Call it before each write. Does not contact a server.

        Raises:
            LockLost: The lease was lost.
            LockReleased: The lease was released.

        Example:
            >>> async with lock as lease:
            ...     lease.ensure_held()
            >>> lease.ensure_held()
            Traceback (most recent call last):
            redlock.LockReleased: lock:job: the lease was released and is no longer held
        """
    @property
    def fencing_token(self, /) -> int:
        """
        A number that is larger than that of every earlier lease of the lock.

        A resource that stores the largest number it has seen can reject writes of earlier leases.

        Raises:
            InvalidOption: The lock was made without `fencing=True`, or the lease is from `attach`.

        Example:
            >>> async with client.lock("row", fencing=True) as first:
            ...     pass
            >>> async with client.lock("row", fencing=True) as second:
            ...     second.fencing_token > first.fencing_token
            True
        """
    @property
    def held(self, /) -> bool:
        """
        Whether the lease is valid now. Does not contact a server.

            >>> async with lock as lease:
            ...     lease.held
            True
        """
    @property
    def key(self, /) -> str:
        """
        The Redis key. Several keys are separated by commas.

            >>> async with lock as lease:
            ...     lease.key
            'lock:job'
        """
    @property
    def keys(self, /) -> list[str]:
        """
        The Redis keys, in the order of the names.

            >>> async with lock as lease:
            ...     lease.keys
            ['lock:job']
        """
    def on_lost(self, /, callback: "collections.abc.Callable[[redlock.errors.LockLost], object]") -> "collections.abc.Callable[[], None]":
        """
        Calls `callback(error)` once if the lease is lost, or soon if it is lost already. Never after a release.

        The callback runs on the running event loop, in the caller's context (`contextvars`). It may be a coroutine
        function, which runs as a task. Without a running loop it runs on a separate thread.

        Args:
            callback: Receives the LockLost.

        Returns:
            A function that unregisters the callback.

        Raises:
            InvalidOption: `callback` cannot be called, or it is a coroutine function and no event loop runs.

        Example:
            >>> async with lock as lease:
            ...     forget = lease.on_lost(lambda error: print(error.reason))
            ...     forget()
        """
    @property
    def remaining(self, /) -> float:
        """
        The time for which the lease is valid, in seconds. 0 when it has ended.

            >>> async with lock as lease:
            ...     9 < lease.remaining < lease.ttl
            True
        """
    @property
    def token(self, /) -> str:
        """
        The value of the key, for `attach`: 32 hex digits, followed by a colon and the label if the lock has
        one. Keep it secret, because it allows to release the lock.

            >>> async with lock as lease:
            ...     len(lease.token)
            32
        """
    @property
    def ttl(self, /) -> float:
        """
        The lifetime that a renewal sets, in seconds: the lock's `ttl`, or the argument of the last confirmed
        `extend`. 0 in a forked child.

            >>> async with lock as lease:
            ...     lease.ttl
            10.0
        """

@final
class AsyncLock:
    """
    Describes what to lock, for asyncio, trio and anyio. It has no state: share it between tasks and use it many times.

    `async with lock as lease:` holds the lock for the block. `@lock` holds it for each call of an `async def`.

        >>> async with redlock.AsyncRedlock("memory://") as client:
        ...     async with client.lock("job", ttl=10) as lease:
        ...         lease.key
        'lock:job'
    """
    async def acquire(self, *, wait: float | datetime.timedelta | None=None, timeout: float | datetime.timedelta | None=None) -> AsyncLease:
        """
        Acquires the lock, waiting if another client holds it. A cancellation leaves no key behind.

        Args:
            wait: Maximum time to wait, in seconds or as a timedelta. 0 tries once, `math.inf` waits forever. Default:
                the lock's own `wait`.
            timeout: Alias of `wait`, in this method only.

        Returns:
            The lease.

        Raises:
            LockTimeout: Another client held the lock all the time.
            QuorumUnavailable: Too few nodes replied all the time.
            ClientClosed: The client was closed.
            InvalidOption: An argument is invalid, or both `wait` and `timeout` are given.
            Unsupported: A server lacks what an option of the client needs.

        Example:
            >>> async_lock = lock.as_async()
            >>> lease = await async_lock.acquire(wait=5)
            >>> await lease.release()
            >>> async with await async_lock.acquire(wait=5) as lease:
            ...     lease.held
            True
        """
    async def try_acquire(self) -> AsyncLease | None:
        """
        Tries to acquire the lock once.

        Returns:
            The lease, or None if another client holds the lock, or another caller in this process waits for it.

        Raises:
            QuorumUnavailable: Too few nodes replied.
            ClientClosed: The client was closed.

        Example:
            >>> lease = await lock.as_async().try_acquire()
            >>> await lease.release()
        """
    async def attach(self, token: str) -> AsyncLease:
        """
        Continues the lease that another process holds under this token.

        Both processes then renew the same key. A release by either deletes it, and the other one loses the lease. To
        transfer a lease, call `lease.detach()` in the other process afterwards. The fencing token is not transferred.

        Args:
            token: The `token` of the other lease.

        Returns:
            The lease.

        Raises:
            LockLost: The lease is not held any longer.
            QuorumUnavailable: Too few nodes replied.
            Unsupported: The key has data of another type.
            ClientClosed: The client was closed.

        Example:
            >>> theirs = await lock.as_async().attach(lease.token)
        """
    async def inspect(self) -> Inspection:
        """
        Asks the nodes for the holder of the lock.

        Returns:
            A snapshot, which may be outdated when you read it.

        Raises:
            QuorumUnavailable: Fewer nodes than a quorum replied within `node_timeout`.
            ClientClosed: The client was closed.

        Example:
            >>> (await lock.as_async().inspect()).held
            False
        """
    async def __aenter__(self) -> AsyncLease: ...
    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None) -> None: ...
    @typing.overload
    def __call__(self, function: staticmethod[_P, collections.abc.Coroutine[typing.Any, typing.Any, _R]]) -> staticmethod[_P, collections.abc.Coroutine[typing.Any, typing.Any, _R]]: ...
    @typing.overload
    def __call__(self, function: classmethod[_T, _P, collections.abc.Coroutine[typing.Any, typing.Any, _R]]) -> classmethod[_T, _P, collections.abc.Coroutine[typing.Any, typing.Any, _R]]: ...
    @typing.overload
    def __call__(self, function: collections.abc.Callable[_P, collections.abc.Coroutine[typing.Any, typing.Any, _R]]) -> collections.abc.Callable[_P, collections.abc.Coroutine[typing.Any, typing.Any, _R]]:
        """
        Decorates a coroutine function, which then holds the lock during each call.

        Braces in the lock's name contain parameters of the function.

        Args:
            function: The `async def` to decorate.

        Returns:
            A coroutine function with the same parameters.

        Raises:
            TypeError: `function` is not a coroutine function.
            InvalidOption: The lock's name contains braces that match no parameter.
        """
    def __bool__(self, /) -> bool: ...
    def __copy__(self, /) -> AsyncLock: ...
    def __deepcopy__(self, /, memo: "object") -> AsyncLock: ...
    def __new__(cls, /, *args: "typing.Never", **kwargs: "typing.Never") -> AsyncLock: ...
    def __reduce__(self, /) -> "tuple[typing.Any, ...]": ...
    def __repr__(self, /) -> str: ...
    @property
    def _lock(self, /) -> Lock:
        """
        The blocking form, which has the futures that `redlock._asyncio` awaits.
        """
    def as_sync(self, /) -> Lock:
        """
        Returns the blocking form of this lock.

            >>> redlock.AsyncRedlock("memory://").lock("job").as_sync()
            <redlock.Lock job>
        """
    @property
    def key(self, /) -> str:
        """
        The Redis key. The keys of several names are separated by commas.

            >>> redlock.AsyncRedlock("memory://").lock(["a", "b"]).key
            'lock:a, lock:b'
        """
    @property
    def keys(self, /) -> list[str]:
        """
        The Redis keys, in the order of the names.

            >>> redlock.AsyncRedlock("memory://").lock(["a", "b"]).keys
            ['lock:a', 'lock:b']
        """
    @property
    def name(self, /) -> str:
        """
        The name, without the client's prefix. Several names are separated by commas.

            >>> redlock.AsyncRedlock("memory://").lock("job").name
            'job'
        """
    @property
    def names(self, /) -> list[str]:
        """
        The names, without the client's prefix.

            >>> redlock.AsyncRedlock("memory://").lock(["a", "b"]).names
            ['a', 'b']
        """
    @property
    def ttl(self, /) -> float:
        """
        The lifetime of a lease without renewal, in seconds.

            >>> redlock.AsyncRedlock("memory://").lock("job").ttl
            10.0
        """
    @property
    def wait(self, /) -> float | None:
        """
        The maximum time that an acquire waits, in seconds. None: forever.

            >>> redlock.AsyncRedlock("memory://").lock("job", wait=5).wait
            5.0
        """

@final
class AsyncOnce:
    """
    A coroutine function that runs once in a given time, over all clients. `run` calls one, and `@once` decorates one.

        >>> async def charge(): return 7
        >>> async with redlock.AsyncRedlock("memory://") as client:
        ...     await client.once("payment:42", remember=86400).run(charge)
        (True, 7)
    """
    async def run(self, function: collections.abc.Callable[_P, collections.abc.Coroutine[typing.Any, typing.Any, _R]], /, *args: _P.args, **kwargs: _P.kwargs) -> tuple[typing.Literal[True], _R] | tuple[typing.Literal[False], None]:
        """
        Awaits the coroutine function with these arguments, unless it ran before.

        If the function raises or is cancelled, nothing is remembered, and the next call runs it. After a process died,
        the function may run again when the `ttl` has ended. If too few nodes confirm the memory, this is only logged.
        The memory then lasts at least for the rest of the TTL.

        Args:
            function: The coroutine function to call. It is cancelled if the lease is lost.
            *args: Its arguments.
            **kwargs: Its keyword arguments.

        Returns:
            Whether it ran, and its result: `(True, result)`, or `(False, None)` if it ran before.

        Raises:
            LockTimeout: Another caller runs the function now, and did not end within `wait`.
            LockLost: The lease was lost before the function ended. Another run may have begun, also if it succeeded.
            QuorumUnavailable: Too few nodes replied, before the function was called.
            TypeError: The function is not a coroutine function, or returns an awaitable or a generator.

        Example:
            >>> async def charge(): return 7
            >>> await client.as_async().once("payment:42", remember=86400).run(charge)
            (True, 7)
        """
    def __call__(self, function: collections.abc.Callable[_P, collections.abc.Coroutine[typing.Any, typing.Any, _R]]) -> collections.abc.Callable[_P, collections.abc.Coroutine[typing.Any, typing.Any, _R | None]]:
        """
        Decorates a coroutine function, whose calls run it unless it ran before.

        Braces in the name contain parameters of the function. A call that is skipped returns None. Use `run` if the
        function may return None too.

        Args:
            function: The `async def` to decorate.

        Returns:
            A coroutine function with the same parameters.

        Raises:
            TypeError: `function` is not a coroutine function.
            InvalidOption: The name contains braces that match no parameter.
        """
    def __new__(cls, /, *args: "typing.Never", **kwargs: "typing.Never") -> AsyncOnce: ...
    def __reduce__(self, /) -> "tuple[typing.Any, ...]": ...
    def __repr__(self, /) -> str: ...
    @property
    def _lock(self, /) -> Lock:
        """
        The lock under which the body runs.
        """
    @property
    def key(self, /) -> str:
        """
        The Redis key.

            >>> client.as_async().once("payment:42", remember=60).key
            'lock:payment:42'
        """

@disjoint_base
class AsyncRedlock:
    """
    A client whose methods are awaited, for asyncio, trio and anyio. Its options are those of `Redlock`.

    The client connects at the first use. `async with client:` calls `shutdown(0)` at its end.

    `nodes` is the URL of a server, or a list of URLs of independent servers. A URL begins with
    `redis://[user:password@]host[:port][/db]`, `rediss://` (TLS), `redis+sentinel://host,host/service`,
    `redis+cluster://host,host`, `unix:///path` or `memory://[name]`. Times are seconds or timedelta.

    - key_prefix: Prefix of every key. Default `lock:`. With an empty prefix, keys may clash with those of other
      libraries.
    - node_timeout: Timeout for the reply of one node, in seconds. Default min(1, ttl / 5), with `fsync`
      min(3, ttl / 3).
    - connect_timeout: Timeout for connecting to one node, in seconds. Includes the name lookup, TCP, TLS and login.
      Default 5.
    - restart_guard: With several nodes, a node that started less than this many seconds ago does not vote on new
      locks. No ttl may exceed it. Use the same value on every client. 0 turns it off. Default 60 with
      several nodes, otherwise 0.
    - min_replicas: Number of replicas that must confirm a grant or renewal before the vote of their node counts
      (WAIT). Default 0.
    - fsync: Whether a grant or renewal must be on disk before it counts (WAITAOF). With `appendfsync
      everysec`, this may take two seconds. Default False.
    - tls_ca: Certificates of CAs and servers to trust for `rediss://`, as the path of a PEM file or as its bytes.
      Default the system's CAs.
    - tls_cert: The client's certificate chain, as the path of a PEM file or as its bytes. Requires `tls_key`.
      Default None.
    - tls_key: The private key of `tls_cert`, as the path of a PEM file or as its bytes. Default None.
    - tls_server_name: Name that the server's certificate must contain. Default the URL's host.
    - tls_verify: Whether to verify the server's certificate. Default True. With False, any server is accepted and
      receives the password. Use False only on an isolated network.
    - client_name: Name of the connections in the server's CLIENT LIST and log. Default `redlock`.
    - label: Label of the locks that set none, which other clients show as the holder. True writes the host and the
      process. Default None.
    - credentials: Callback that returns a password, (user, password) or (user, password, lifetime in seconds). It
      is called on a separate thread at each connect, and again before the lifetime ends. Default the URL's user and
      password.
    - address_map: Where to connect to servers of `redis+sentinel://` and `redis+cluster://` that announce other
      addresses, such as behind NAT or Docker. A mapping such as {"10.0.0.1:6379": "127.0.0.1:7001"}, or a function
      that gets a host and a port and returns (host, port), on a separate thread at each connect. Addresses in URLs
      stay as they are. Default None.
    - unavailable_after: Maximum time in seconds without replies from a quorum of nodes, for an acquire without a
      `wait`. It then raises QuorumUnavailable. None sets no limit. Default 10.

    Raises InvalidOption for an invalid value.

        >>> async with redlock.AsyncRedlock("memory://", key_prefix="app:") as client:
        ...     async with client.lock("job") as lease:
        ...         lease.key
        'app:job'
    """
    @classmethod
    def from_client(cls, client: typing.Any | collections.abc.Sequence[typing.Any], *, service: str | None=None, key_prefix: str | None=None, node_timeout: float | datetime.timedelta | None=None, connect_timeout: float | datetime.timedelta | None=None, unavailable_after: float | datetime.timedelta | None=..., restart_guard: float | datetime.timedelta | None=None, min_replicas: int | None=None, fsync: bool | None=None, tls_ca: str | os.PathLike[str] | bytes | None=None, tls_cert: str | os.PathLike[str] | bytes | None=None, tls_key: str | os.PathLike[str] | bytes | None=None, tls_server_name: str | None=None, tls_verify: bool | None=None, client_name: str | None=None, label: str | bool | None=None, credentials: collections.abc.Callable[[], str | tuple[str | None, str] | tuple[str | None, str, float | datetime.timedelta | None]] | None=None, address_map: collections.abc.Mapping[str, str] | collections.abc.Callable[[str, int], tuple[str, int]] | None=None) -> typing.Self:
        """
        Returns a client with the settings of a redis-py client. It opens separate connections.

        Address, database, user, password or credential provider, TLS, client name, timeouts and `address_remap` are
        taken from the given client. Options take precedence over them. Does not connect, and does not keep the given
        client.

        Args:
            client: A `redis.Redis`, `redis.asyncio.Redis`, `ConnectionPool`, `RedisCluster` or `Sentinel`. A list of
                them is a quorum of independent nodes.
            service: Name of the service. Only for a `Sentinel`.
            key_prefix: Prefix of every key. This and all further arguments are options of `Redlock`.
            node_timeout: Timeout for the reply of one node, in seconds.
            connect_timeout: Timeout for connecting, in seconds.
            unavailable_after: Time in seconds after which an acquire without `wait` fails if no quorum of nodes
                replies. None waits forever.
            restart_guard: Time in seconds for which a restarted node does not vote.
            min_replicas: Number of replicas that must confirm a grant or renewal.
            fsync: Require that a grant or renewal is on disk.
            tls_ca: Certificates of CAs and servers to trust, as a path or as PEM bytes.
            tls_cert: Client certificate, as a path or as PEM bytes.
            tls_key: Private key of the certificate, as a path or as PEM bytes.
            tls_server_name: Name that the server's certificate must contain.
            tls_verify: Verify the server's certificate.
            client_name: Connection name in the server's `CLIENT LIST`.
            label: Label of the locks that set none. True writes the host and the process.
            credentials: Callback that returns a password, `(user, password)` or `(user, password, seconds)`.
            address_map: Where to connect to servers that announce other addresses, as a mapping or a function.

        Returns:
            The client.

        Raises:
            InvalidOption: `client` is something else, or has a setting without a counterpart that decides which server
                is used or trusted. Other settings without a counterpart cause one warning.

        Example:
            >>> import redis
            >>> redlock.Redlock.from_client(redis.Redis(port=6380, db=1), key_prefix="app:").nodes
            ['redis://localhost:6380/1']
        """
    async def __aenter__(self) -> typing.Self: ...
    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None) -> None: ...
    async def attach(self, name: str | list[str] | tuple[str, ...], token: str, *, ttl: float | datetime.timedelta | None=None) -> AsyncLease:
        """
        Continues the lease that another process holds under this token.

        The same as `client.lock(name, ttl=ttl).attach(token)`.

        Args:
            name: The name of the lock, or several.
            token: The `token` of the other lease.
            ttl: Lifetime of the lease without renewal, in seconds or as a timedelta. Default: 10.

        Returns:
            The lease.

        Raises:
            LockLost: The lease is not held any longer.
            QuorumUnavailable: Too few nodes replied.
            Unsupported: The key has data of another type.
            ClientClosed: The client was closed.

        Example:
            >>> theirs = await client.as_async().attach("job", lease.token)
        """
    async def force_release(self, name: str | list[str] | tuple[str, ...] | Lock | AsyncLock) -> bool:
        """
        Deletes the lock, even if another client holds it. Its holder is notified of the loss.

        Args:
            name: The name of the lock, or several, or a lock object. The latter is needed for a semaphore.

        Returns:
            Whether any node had a key of the lock.

        Raises:
            QuorumUnavailable: Too few nodes replied.
            Unsupported: The key has a value that is not a token. It is then no lock, and stays.

        Example:
            >>> await client.as_async().force_release("job")
            True
        """
    async def ping(self, timeout: float | datetime.timedelta=1) -> Ping:
        """
        Asks each node whether it would grant a lock now, for readiness probes. No lock is acquired.

        It sends a write without effect, which a replica, a server that is loading, and one without memory or disk
        refuse. Nodes that fail are part of the result, and no error.

        Args:
            timeout: Maximum time to wait for all replies, in seconds or as a timedelta. Default 1.

        Returns:
            A `Ping`, whose `ready` is True if a quorum of the nodes would grant a lock.

        Raises:
            ClientClosed: The client was closed.
            InvalidOption: `timeout` is 0 or invalid.

        Example:
            >>> (await client.as_async().ping(timeout=0.5)).ready
            True
        """
    async def release_all(self) -> int:
        """
        Releases all leases of this client. Code that still uses one gets LockLost with reason `revoked`.

        Returns:
            The number of leases.

        Raises:
            LockError: The first error, after every release was tried.

        Example:
            >>> await client.as_async().release_all()
            1
        """
    async def shutdown(self, timeout: float | datetime.timedelta=10) -> int:
        """
        Ends the client in order.

        From the call on, new acquires raise ClientClosed. Waiting acquires and running bodies have until the timeout.
        Then waiting acquires raise ClientClosed. Leases that are still held are released, and their holders get
        LockLost with reason `revoked`. A node that cannot be reached and has pending deletes has until the timeout to
        come back. A cancellation ends only the wait. The shutdown continues in the background.

        Args:
            timeout: Seconds or a timedelta. With 0, waiting acquires and held leases end at once.

        Returns:
            The number of leases that were still held at the timeout, or 0 if the client is already closed.

        Raises:
            QuorumUnavailable: Too few nodes confirmed the releases, or a blocked event loop could not end an acquire.
                Those keys expire when their TTL ends. The client is closed nevertheless.

        Example:
            >>> await client.as_async().shutdown(timeout=0)
            1
        """
    def __copy__(self, /) -> AsyncRedlock: ...
    def __deepcopy__(self, /, memo: "object") -> AsyncRedlock: ...
    def __new__(cls, /, nodes: "str | list[str] | tuple[str, ...]", *, key_prefix: "str | None" = None, node_timeout: "float | datetime.timedelta | None" = None, connect_timeout: "float | datetime.timedelta | None" = None, restart_guard: "float | datetime.timedelta | None" = None, min_replicas: "int | None" = None, fsync: "bool | None" = None, tls_ca: "str | os.PathLike[str] | bytes | None" = None, tls_cert: "str | os.PathLike[str] | bytes | None" = None, tls_key: "str | os.PathLike[str] | bytes | None" = None, tls_server_name: "str | None" = None, tls_verify: "bool | None" = None, client_name: "str | None" = None, label: "str | bool | None" = None, credentials: "collections.abc.Callable[[], str | tuple[str | None, str] | tuple[str | None, str, float | datetime.timedelta | None]] | None" = None, address_map: "collections.abc.Mapping[str, str] | collections.abc.Callable[[str, int], tuple[str, int]] | None" = None, unavailable_after: "float | datetime.timedelta | None" = ...) -> AsyncRedlock: ...
    def __reduce__(self, /) -> "tuple[typing.Any, ...]": ...
    def __repr__(self, /) -> str: ...
    @property
    def _client(self, /) -> Redlock:
        """
        The blocking form, which has the futures that `redlock._client` awaits.
        """
    def as_sync(self, /) -> Redlock:
        """
        Returns the blocking form of this client. Both share connections, leases and the shutdown.

            >>> redlock.AsyncRedlock("memory://").as_sync()
            <redlock.Redlock memory://>
        """
    def close(self, /) -> None:
        """
        Closes the client at once. Waiting acquires raise ClientClosed, its leases are lost, and their keys expire.

            >>> client = redlock.AsyncRedlock("memory://")
            >>> client.close()
            >>> await client.lock("job").acquire()
            Traceback (most recent call last):
            redlock.ClientClosed: lock:job: the client is closed
        """
    def leader(self, /, name: "str", *, ttl: "float | datetime.timedelta | None" = None, max_hold: "float | datetime.timedelta | None" = None, node_timeout: "float | datetime.timedelta | None" = None, fencing: "bool | None" = None, label: "str | bool | None" = None) -> AsyncLeader:
        """
        Describes a candidate of an election, of which at most one leads at a time. Nothing is sent.

        A leader holds the lock of this name. A campaign has no time limit and survives outages.

        - ttl: Time in seconds after which another candidate takes over from a process that died. The lease is renewed
          while it leads. Minimum 0.1, default 10.
        - max_hold: Maximum time in seconds of a term. The lease is then lost, and the next campaign may win again.
          Default None, which sets no limit.
        - node_timeout: Timeout for the reply of one node, in seconds. Default the client's, else min(1, ttl / 5),
          with `fsync` min(3, ttl / 3).
        - fencing: Whether each term has a fencing token, available as `lease.fencing_token`. Default False.
        - label: Label of this candidate, which `current` returns while it leads. 1 to 48 ASCII letters, digits or
          characters of `._@-`. True writes the host and the process. Default the client's, else True.

        Raises InvalidOption for an invalid value.

            >>> async def schedule(lease): return lease.held
            >>> async with redlock.AsyncRedlock("memory://") as client:
            ...     await client.leader("scheduler").run(schedule)
            True
        """
    def leases(self, /) -> list[AsyncLease]:
        """
        Returns the leases that this client holds now.

            >>> async with redlock.AsyncRedlock("memory://") as client:
            ...     async with client.lock("job"):
            ...         [lease.key for lease in client.leases()]
            ['lock:job']
        """
    @typing.overload
    def lock(self, /, name: "str | list[str] | tuple[str, ...] | collections.abc.Callable[..., str | list[str]]", *, default: "_D", ttl: "float | datetime.timedelta | None" = None, wait: "float | datetime.timedelta | None" = None, renew: "bool | None" = None, max_hold: "float | datetime.timedelta | None" = None, min_hold: "float | datetime.timedelta | None" = None, node_timeout: "float | datetime.timedelta | None" = None, fencing: "bool | None" = None, label: "str | bool | None" = None) -> redlock.types.AsyncLockDecorator[_D]: ...
    @typing.overload
    def lock(self, /, name: "str | list[str] | tuple[str, ...] | collections.abc.Callable[..., str | list[str]]", *, ttl: "float | datetime.timedelta | None" = None, wait: "float | datetime.timedelta | None" = None, renew: "bool | None" = None, max_hold: "float | datetime.timedelta | None" = None, min_hold: "float | datetime.timedelta | None" = None, node_timeout: "float | datetime.timedelta | None" = None, fencing: "bool | None" = None, label: "str | bool | None" = None) -> AsyncLock:
        """
        Describes a lock on one name, or on several (1,000 at most) as one. Nothing is sent.

        Times are seconds or timedelta. For a decorator, the name may contain parameters of the decorated function in
        braces. It may also be a function that receives the arguments that it names.

        - ttl: Time in seconds until the lease expires, unless renewed. Minimum 0.1, default 10.
        - wait: Maximum time in seconds that an acquire waits, both for the holder and for failed nodes. 0 tries once.
          Default None, which waits for the holder forever, and for failed nodes up to the client's `unavailable_after`.
        - renew: Whether to renew the lease every third of the ttl until it is released. Default True.
        - max_hold: Maximum time in seconds to hold the lock. The lease is then lost. Default None, which sets no limit.
        - min_hold: Minimum time in seconds to keep the key, even if the lease is released earlier. Default 0.
        - node_timeout: Timeout for the reply of one node, in seconds. Default the client's, else min(1, ttl / 5),
          with `fsync` min(3, ttl / 3).
        - fencing: Whether to issue a fencing token, available as `lease.fencing_token`. Default False.
        - label: Label of this holder in the value of the key, which other clients show as the holder. 1 to 48 ASCII
          letters, digits or characters of `._@-`. True writes the host and the process, False none. Every client that
          can read the keys sees it. Default the client's.
        - default: For decorators, the value that a call returns if it cannot acquire within `wait`. The
          function does not run then. Without `default`, the call raises LockTimeout.

        Raises InvalidOption for an invalid value.

            >>> async with redlock.AsyncRedlock("memory://") as client:
            ...     async with client.lock("job", ttl=10, wait=5) as lease:
            ...         lease.remaining > 9
            True
        """
    @property
    def nodes(self, /) -> list[str]:
        """
        The URLs of the nodes, without user and password.

            >>> redlock.AsyncRedlock("redis://user:secret@127.0.0.1:6379/1").nodes
            ['redis://127.0.0.1:6379/1']
        """
    def once(self, /, name: "str | collections.abc.Callable[..., str]", *, remember: "float | datetime.timedelta", ttl: "float | datetime.timedelta | None" = None, wait: "float | datetime.timedelta | None" = None, renew: "bool | None" = None, max_hold: "float | datetime.timedelta | None" = None, node_timeout: "float | datetime.timedelta | None" = None, label: "str | bool | None" = None) -> AsyncOnce:
        """
        Describes a function that runs once in the time `remember`, over all clients. Nothing is sent.

        It runs under the lock of this name, whose key is kept after a success. A function that raises and a process
        that dies leave no memory, so the next call runs it again. Do not use the same name for a lock. For a
        decorator, the name may contain parameters of the decorated function in braces.

        - remember: How long a successful run is remembered, in seconds or as a timedelta, from its start. Required.
        - ttl: Time in seconds until the run of a process that died may be repeated. The lease is renewed while the
          function runs. Minimum 0.1, default 10.
        - wait: Maximum time in seconds to wait while another caller runs the function, and for failed nodes.
          Default 0, which raises LockTimeout at once.
        - renew: Whether to renew the lease every third of the ttl. Default True.
        - max_hold: Maximum time in seconds that a run takes. The lease is then lost. Default None, which sets no
          limit.
        - node_timeout: Timeout for the reply of one node, in seconds. Default the client's, else min(1, ttl / 5),
          with `fsync` min(3, ttl / 3).
        - label: Label of this caller in the value of the key, which other clients show. 1 to 48 ASCII letters,
          digits or characters of `._@-`. True writes the host and the process, False none. Default the client's.

        Raises InvalidOption for an invalid value.

            >>> async with redlock.AsyncRedlock("memory://") as client:
            ...     @client.once("payment:{id}", remember=86400)
            ...     async def charge(id): return "charged"
            ...     await charge(42), await charge(42)
            ('charged', None)
        """
    def rwlock(self, /, name: "str | collections.abc.Callable[..., str]", *args: "typing.Never", **kwargs: "typing.Never") -> AsyncRwLock:
        """
        Describes a read/write lock: any number of readers hold it at a time, or one writer. Nothing is sent.

        `read()` and `write()` of the result return its sides, which are locks with options. Readers and
        writers that wait take turns.

        Raises InvalidOption for an invalid name.

            >>> async with redlock.AsyncRedlock("memory://") as client:
            ...     async with client.rwlock("config").write(ttl=10) as lease:
            ...         lease.key
            'lock:config'
        """
    @typing.overload
    def semaphore(self, /, name: "str | list[str] | tuple[str, ...] | collections.abc.Callable[..., str | list[str]]", limit: "int", *, default: "_D", permits: "int | None" = None, ttl: "float | datetime.timedelta | None" = None, wait: "float | datetime.timedelta | None" = None, renew: "bool | None" = None, max_hold: "float | datetime.timedelta | None" = None, min_hold: "float | datetime.timedelta | None" = None, node_timeout: "float | datetime.timedelta | None" = None, label: "str | bool | None" = None) -> redlock.types.AsyncLockDecorator[_D]: ...
    @typing.overload
    def semaphore(self, /, name: "str | list[str] | tuple[str, ...] | collections.abc.Callable[..., str | list[str]]", limit: "int", *, permits: "int | None" = None, ttl: "float | datetime.timedelta | None" = None, wait: "float | datetime.timedelta | None" = None, renew: "bool | None" = None, max_hold: "float | datetime.timedelta | None" = None, min_hold: "float | datetime.timedelta | None" = None, node_timeout: "float | datetime.timedelta | None" = None, label: "str | bool | None" = None) -> AsyncLock:
        """
        Describes a semaphore: at most `limit` of its permits have owners at a time. Nothing is sent.

        It is used like a lock, and each lease has one permit, or `permits`. Each permit is a key that expires with its
        lease, so a process that dies loses none. Fencing tokens and `attach` are not available.

        - limit: Number of permits, 1 to 1000, and meant for up to 100. If clients use different limits, the largest
          applies.
        - permits: Number of permits of each lease, up to `limit`. An acquire gets all of them or none. Default 1.
        - ttl: Time in seconds until the lease expires, unless renewed. Minimum 0.1, default 10.
        - wait: Maximum time in seconds that an acquire waits, both for permits and for failed nodes. 0 tries without
          waiting, in up to four rounds. Default None, which waits for permits forever, and for failed nodes up to the
          client's `unavailable_after`.
        - renew: Whether to renew the lease every third of the ttl until it is released. Default True.
        - max_hold: Maximum time in seconds to hold the permits. The lease is then lost. Default None, which sets no
          limit.
        - min_hold: Minimum time in seconds to keep the permits, even if the lease is released earlier. With
          `min_hold=1`, at most `limit` leases begin in any second. Default 0.
        - node_timeout: Timeout for the reply of one node, in seconds. Default the client's, else min(1, ttl / 5),
          with `fsync` min(3, ttl / 3).
        - label: Label of this holder in the value of the keys, which `inspect` shows. 1 to 48 ASCII letters, digits or
          characters of `._@-`. True writes the host and the process, False none. Default the client's.
        - default: For decorators, the value that a call returns if it cannot acquire within `wait`. The
          function does not run then. Without `default`, the call raises LockTimeout.

        Raises InvalidOption for an invalid value.

            >>> async with redlock.AsyncRedlock("memory://") as client:
            ...     async with client.semaphore("gpu", 4, permits=3) as lease:
            ...         len(lease.keys)
            3
        """
    def stats(self, /) -> Stats:
        """
        Returns statistics of this client in this process. In a forked child they start at 0.

            >>> redlock.AsyncRedlock("memory://").stats().held
            0
        """

@final
class AsyncRwLock:
    """
    A read/write lock for asyncio, trio and anyio. Its sides are asynchronous locks.

        >>> async with redlock.AsyncRedlock("memory://") as client:
        ...     config = client.rwlock("config")
        ...     async with config.read():
        ...         await config.write().try_acquire() is None
        True
    """
    def __copy__(self, /) -> AsyncRwLock: ...
    def __deepcopy__(self, /, memo: "object") -> AsyncRwLock: ...
    def __new__(cls, /, *args: "typing.Never", **kwargs: "typing.Never") -> AsyncRwLock: ...
    def __reduce__(self, /) -> "tuple[typing.Any, ...]": ...
    def __repr__(self, /) -> str: ...
    def as_sync(self, /) -> RwLock:
        """
        Returns the blocking form of this lock.

            >>> redlock.AsyncRedlock("memory://").rwlock("config").as_sync()
            <redlock.RwLock config>
        """
    @property
    def key(self, /) -> str:
        """
        The Redis key.

            >>> redlock.AsyncRedlock("memory://").rwlock("config").key
            'lock:config'
        """
    @property
    def name(self, /) -> str:
        """
        The name, without the client's prefix.

            >>> redlock.AsyncRedlock("memory://").rwlock("config").name
            'config'
        """
    @typing.overload
    def read(self, /, *, default: "_D", ttl: "float | datetime.timedelta | None" = None, wait: "float | datetime.timedelta | None" = None, renew: "bool | None" = None, max_hold: "float | datetime.timedelta | None" = None, node_timeout: "float | datetime.timedelta | None" = None, label: "str | bool | None" = None) -> redlock.types.AsyncLockDecorator[_D]: ...
    @typing.overload
    def read(self, /, *, ttl: "float | datetime.timedelta | None" = None, wait: "float | datetime.timedelta | None" = None, renew: "bool | None" = None, max_hold: "float | datetime.timedelta | None" = None, node_timeout: "float | datetime.timedelta | None" = None, label: "str | bool | None" = None) -> AsyncLock:
        """
        Describes the lock of a reader, which other readers share. Nothing is sent.

        A waiting writer comes before further readers, so do not acquire it again while you hold it: both may wait for
        each other. A reader that dies delays a writer by its TTL and at most one second more. Fencing tokens and
        `min_hold` are not available.

        - ttl: Time in seconds until the lease expires, unless renewed. Minimum 0.1, default 10.
        - wait: Maximum time in seconds that an acquire waits, both for the holder and for failed nodes. 0 tries once.
          Default None, which waits for the holder forever, and for failed nodes up to the client's `unavailable_after`.
        - renew: Whether to renew the lease every third of the ttl until it is released. Default True.
        - max_hold: Maximum time in seconds to hold the lock. The lease is then lost. Default None, which sets no limit.
        - node_timeout: Timeout for the reply of one node, in seconds. Default the client's, else min(1, ttl / 5),
          with `fsync` min(3, ttl / 3).
        - label: Label of this holder in the value of the key, which other clients show as the holder. 1 to 48 ASCII
          letters, digits or characters of `._@-`. True writes the host and the process, False none. Every client that
          can read the keys sees it. Default the client's.
        - default: For decorators, the value that a call returns if it cannot acquire within `wait`. The
          function does not run then. Without `default`, the call raises LockTimeout.

        Raises InvalidOption for an invalid value.

            >>> async with redlock.AsyncRedlock("memory://") as client:
            ...     async with client.rwlock("config").read(wait=5) as lease:
            ...         lease.key
            'lock:config'
        """
    @typing.overload
    def write(self, /, *, default: "_D", ttl: "float | datetime.timedelta | None" = None, wait: "float | datetime.timedelta | None" = None, renew: "bool | None" = None, max_hold: "float | datetime.timedelta | None" = None, min_hold: "float | datetime.timedelta | None" = None, node_timeout: "float | datetime.timedelta | None" = None, fencing: "bool | None" = None, label: "str | bool | None" = None) -> redlock.types.AsyncLockDecorator[_D]: ...
    @typing.overload
    def write(self, /, *, ttl: "float | datetime.timedelta | None" = None, wait: "float | datetime.timedelta | None" = None, renew: "bool | None" = None, max_hold: "float | datetime.timedelta | None" = None, min_hold: "float | datetime.timedelta | None" = None, node_timeout: "float | datetime.timedelta | None" = None, fencing: "bool | None" = None, label: "str | bool | None" = None) -> AsyncLock:
        """
        Describes the lock of a writer, which excludes everyone. Nothing is sent.

        `lock()` on the same name excludes readers and writers too, but takes no turns with waiting readers.

        - ttl: Time in seconds until the lease expires, unless renewed. Minimum 0.1, default 10.
        - wait: Maximum time in seconds that an acquire waits, both for the holder and for failed nodes. 0 tries once.
          Default None, which waits for the holder forever, and for failed nodes up to the client's `unavailable_after`.
        - renew: Whether to renew the lease every third of the ttl until it is released. Default True.
        - max_hold: Maximum time in seconds to hold the lock. The lease is then lost. Default None, which sets no limit.
        - min_hold: Minimum time in seconds to keep the key, even if the lease is released earlier. Default 0.
        - node_timeout: Timeout for the reply of one node, in seconds. Default the client's, else min(1, ttl / 5),
          with `fsync` min(3, ttl / 3).
        - fencing: Whether to issue a fencing token, available as `lease.fencing_token`. Default False.
        - label: Label of this holder in the value of the key, which other clients show as the holder. 1 to 48 ASCII
          letters, digits or characters of `._@-`. True writes the host and the process, False none. Every client that
          can read the keys sees it. Default the client's.
        - default: For decorators, the value that a call returns if it cannot acquire within `wait`. The
          function does not run then. Without `default`, the call raises LockTimeout.

        Raises InvalidOption for an invalid value.

            >>> async with redlock.AsyncRedlock("memory://") as client:
            ...     async with client.rwlock("config").write(fencing=True) as lease:
            ...         lease.fencing_token > 0
            True
        """

@final
class Inspection:
    """
    A snapshot of the holder of a lock, as reported by each node.

        >>> found = client.lock("job").inspect()
        >>> found.held, found.remaining, found.nodes[0].state
        (False, None, 'free')
    """
    def __copy__(self, /) -> Inspection: ...
    def __deepcopy__(self, /, memo: "object") -> Inspection: ...
    def __reduce__(self, /) -> "tuple[typing.Any, ...]": ...
    def __repr__(self, /) -> str: ...
    @property
    def held(self, /) -> bool:
        """
        Whether one owner holds the lock on a quorum of nodes. For a semaphore, whether no permit is free.
        """
    @property
    def label(self, /) -> str | None:
        """
        The holder's label. None if the lock is free or its holder has none.
        """
    @property
    def limit(self, /) -> int:
        """
        How many permits the semaphore has. For a lock, how many keys.
        """
    @property
    def mode(self, /) -> str | None:
        """
        Which side holds a read/write lock: `read` or `write`. None if it is free. For a lock, `read` if readers hold
        it, else None.
        """
    @property
    def nodes(self, /) -> list[NodeInspection]:
        """
        The reply of each node for each key.
        """
    @property
    def remaining(self, /) -> float | None:
        """
        Remaining time in seconds. None if the lock is free or has no known end. If `held` is false, how long the key
        stays because of `min_hold`. For a semaphore, the shortest time if no permit is free.
        """
    @property
    def taken(self, /) -> int:
        """
        How many permits of a semaphore are not free. For a lock, how many of its keys.
        """

@final
class Leader:
    """
    A candidate of an election, of which at most one leads at a time, over all clients.

    `run` campaigns, calls a function while it leads, and campaigns again after a loss. `with leader as lease:` leads
    for one term, until the block ends.

        >>> leader = client.leader("scheduler", label="web-3")
        >>> leader.run(lambda lease: (leader.is_leading, leader.current()))
        (True, 'web-3')
        >>> leader.is_leading, leader.current()
        (False, None)
    """
    def run(self, function: collections.abc.Callable[typing.Concatenate[Lease, _P], _R], /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """
        Campaigns until it leads, calls the function with the lease, and resigns when the function returns.

        A loss of the lease does not interrupt the function. It can check `lease.held` or call `lease.ensure_held()`,
        and a function with `lease.on_lost` is notified. If the lease was lost before the function ended, its result is
        dropped, and the next campaign begins. So it does if the function raised the LockLost of its lease.

        Args:
            function: The function to call. It receives the lease of the term, and then these arguments.
            *args: Its further arguments.
            **kwargs: Its keyword arguments.

        Returns:
            The result of the function.

        Raises:
            ClientClosed: The client was closed.
            QuorumUnavailable: The servers refuse the login or the commands. Other outages do not end a campaign.
            Unsupported: A server lacks what an option of the client needs.
            TypeError: The function is a coroutine function or a generator, or returns an awaitable.

        Example:
            >>> def schedule(lease, job):
            ...     lease.ensure_held()
            ...     return f"{job} done"
            >>> client.leader("scheduler").run(schedule, "report")
            'report done'
        """
    def __enter__(self, /) -> Lease: ...
    def __exit__(self, /, kind: "type[BaseException] | None", error: "BaseException | None", trace: "types.TracebackType | None") -> "None": ...
    def __new__(cls, /, *args: "typing.Never", **kwargs: "typing.Never") -> Leader: ...
    def __reduce__(self, /) -> "tuple[typing.Any, ...]": ...
    def __repr__(self, /) -> str: ...
    @property
    def _lock(self, /) -> Lock:
        """
        The lock under which the body runs.
        """
    def as_async(self, /) -> AsyncLeader:
        """
        Returns the asynchronous form of this candidate, whose methods are awaited.

            >>> client.leader("scheduler").as_async()
            <redlock.AsyncLeader scheduler>
        """
    def current(self, /) -> str | None:
        """
        Asks the nodes for the leader, and returns its label, or None if there is none. It may be outdated on return.

        The label is empty if a client holds a plain lock of this name without a label. Raises QuorumUnavailable if
        fewer nodes than a quorum replied within `node_timeout`.

            >>> with client.leader("scheduler", label="web-3"):
            ...     client.leader("scheduler").current()
            'web-3'
        """
    @property
    def is_leading(self, /) -> bool:
        """
        Whether this candidate leads at this moment. Does not contact a server.

            >>> client.leader("scheduler").is_leading
            False
        """
    @property
    def key(self, /) -> str:
        """
        The Redis key.

            >>> client.leader("scheduler").key
            'lock:scheduler'
        """

@final
class Lease:
    """
    A held lock, renewed in the background until the lease is released, lost or garbage-collected.

    `with lease:` releases it at the end. It raises LockLost if the lease is over, and RuntimeError if a with statement
    has entered it already. If a lease is garbage-collected without a release, its renewal ends and the key expires when
    its TTL ends. A ResourceWarning names the lease.

        >>> with client.lock("job").acquire() as lease:
        ...     lease.held
        True
    """
    def __enter__(self, /) -> Lease: ...
    def __exit__(self, /, kind: "type[BaseException] | None", error: "BaseException | None", trace: "types.TracebackType | None") -> "None": ...
    def __new__(cls, /, *args: "typing.Never", **kwargs: "typing.Never") -> Lease: ...
    def __reduce__(self, /) -> "typing.NoReturn": ...
    def __repr__(self, /) -> str: ...
    @property
    def _body(self, /) -> Any | None:
        """
        The body of an `async with` that runs under this lease.
        """
    def _conclude(self, /, problem: "redlock.errors.LockError", error: "BaseException | None") -> "None":
        """
        Ends an `async with` whose release failed.
        """
    def _enter(self, /, body: "object") -> "None":
        """
        Begins an `async with` over the lease itself.
        """
    def _extend(self, /, ttl: "float | datetime.timedelta | None") -> "collections.abc.Awaitable[None]":
        """
        Sends the commands of `extend`.
        """
    def _leave(self, /) -> "typing.Any":
        """
        Ends the `async with`, and returns its body.
        """
    def _let_go(self, /) -> None:
        """
        Sends the release and does not wait.
        """
    def _on_lost(self, /, callback: "collections.abc.Callable[[redlock.errors.LockLost], object]") -> "None":
        """
        Like `on_lost`, without a context and without a function that unregisters the callback.
        """
    def _release(self, /, completed: "bool" = False) -> "collections.abc.Awaitable[None]":
        """
        Sends the release, after a body that `completed` without an exception or not. A cancellation then ends only the
        wait for the confirmation.
        """
    def as_async(self, /) -> AsyncLease:
        """
        Returns the asynchronous form of this lease. Both are the same lease: releasing either releases it.

            >>> async with lease.as_async() as same:
            ...     same.token == lease.token
            True
        """
    def detach(self, /) -> bool:
        """
        Ends the lease without deleting its key. Returns True if the lease was still held.

        The key expires when its TTL ends, unless another process attached to its token. To hand a lease over, pass
        `token` on, wait for the `attach` of the other process, and then detach.

            >>> lease.detach(), client.lock("job").inspect().held
            (True, True)
        """
    def ensure_held(self, /) -> None:
        """
        Raises LockLost if the lease was lost, and LockReleased if it was released. Call it before each write. Does not
        contact a server.

            >>> lease.ensure_held()
            >>> lease.release()
            >>> lease.ensure_held()
            Traceback (most recent call last):
            redlock.LockReleased: lock:job: the lease was released and is no longer held
        """
    def extend(self, /, ttl: "float | datetime.timedelta | None" = None) -> None:
        """
        Extends the lease to at least `ttl` seconds from now (default: its current ttl), but not beyond `max_hold`.
        Later renewals use the same ttl. Never shortens the lease.

        Raises LockLost if the lease has ended. Raises QuorumUnavailable if too few nodes replied. The lease is then
        valid until its deadline. Raises InvalidOption for a ttl below 0.1, or above `restart_guard` while that is on.

            >>> lease.extend(ttl=30)
            >>> lease.ttl, lease.remaining > 29
            (30.0, True)
        """
    @property
    def fencing_token(self, /) -> int:
        """
        A number that is larger than the fencing token of every earlier lease of the lock.

        A resource that stores the largest token can reject requests of earlier holders.

        Raises InvalidOption unless the lock was made with `fencing=True`, and for a lease from `attach`.

            >>> first = client.lock("row", fencing=True).acquire()
            >>> first.release()
            >>> with client.lock("row", fencing=True) as second:
            ...     second.fencing_token > first.fencing_token
            True
        """
    @property
    def held(self, /) -> bool:
        """
        Whether the lease is valid now. Does not contact a server.

            >>> lease.held
            True
        """
    @property
    def key(self, /) -> str:
        """
        The Redis key. Several keys are separated by commas.

            >>> lease.key
            'lock:job'
        """
    @property
    def keys(self, /) -> list[str]:
        """
        The Redis keys, in the order of the names.

            >>> lease.keys
            ['lock:job']
        """
    def on_lost(self, /, callback: "collections.abc.Callable[[redlock.errors.LockLost], object]") -> "collections.abc.Callable[[], None]":
        """
        Calls `callback(error)` once if the lease is lost, or soon if it is lost already. Never after a release.

        The callback runs on the running event loop, in the caller's context (`contextvars`). Without a running loop it
        runs on a separate thread. On a loop it may be a coroutine function, which runs as a task. Returns a function
        that unregisters the callback. Raises InvalidOption if `callback` cannot be called, or if it is a coroutine
        function and no event loop runs.

            >>> done = threading.Event()
            >>> forget = lease.on_lost(lambda error: print("not called"))
            >>> forget()
            >>> reasons = []
            >>> forget = lease.on_lost(lambda error: (reasons.append(error.reason), done.set()))
            >>> client.close()
            >>> done.wait(5), reasons
            (True, ['closed'])
        """
    def release(self, /) -> None:
        """
        Releases the lock. A second call does nothing. Raises LockLost if the lease was lost.

        Raises QuorumUnavailable if too few nodes confirmed within `node_timeout`. The keys then expire when their TTL
        ends.

            >>> lease.release()
            >>> lease.held
            False
        """
    @property
    def remaining(self, /) -> float:
        """
        The time for which the lease is valid, in seconds. 0 when it has ended.

            >>> 9 < lease.remaining < lease.ttl
            True
        """
    @property
    def token(self, /) -> str:
        """
        The value of the key while the lease is held, as 32 hex digits, followed by a colon and the label
        if the lock has one. Pass it to `attach` to hand the lease over.

        Any client with this token can release the lock.

            >>> len(lease.token)
            32
        """
    @property
    def ttl(self, /) -> float:
        """
        The lifetime that a renewal sets, in seconds: the lock's `ttl`, or the argument of the last confirmed
        `extend`. 0 in a forked child.

            >>> lease.ttl
            10.0
        """

@final
class Lock:
    """
    A lock on one name, or on several as one. You can reuse it, and share it between threads and tasks.

    `with lock as lease:` and `async with lock as lease:` hold it for the block; `@lock` holds it for each call.

        >>> with client.lock("job", ttl=10) as lease:
        ...     lease.key
        'lock:job'
        >>> @client.lock("report:{user}", wait=0, default=None)
        ... def report(user): return len(user)
        >>> report("eve")
        3
        >>> with client.lock("report:eve"):
        ...     print(report("eve"), report("mallory"))
        None 7
    """
    async def __aenter__(self) -> AsyncLease: ...
    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None) -> None: ...
    @typing.overload
    def __call__(self, function: staticmethod[_P, _R]) -> staticmethod[_P, _R]: ...
    @typing.overload
    def __call__(self, function: classmethod[_T, _P, _R]) -> classmethod[_T, _P, _R]: ...
    @typing.overload
    def __call__(self, function: collections.abc.Callable[_P, _R]) -> collections.abc.Callable[_P, _R]:
        """
        Decorates a function or coroutine function, which then holds the lock during each call.

        Braces in the lock's name contain parameters of the function. If a function that is not an `async def` returns
        an awaitable, the lock is held until the awaitable ends.

        Args:
            function: The function to decorate.

        Returns:
            A function with the same parameters.

        Raises:
            TypeError: `function` is a class, a property or a generator, whose caller decides when it ends.
            InvalidOption: The lock's name contains braces that match no parameter.
        """
    def __bool__(self, /) -> bool: ...
    def __copy__(self, /) -> Lock: ...
    def __deepcopy__(self, /, memo: "object") -> Lock: ...
    def __enter__(self, /) -> Lease: ...
    def __exit__(self, /, kind: "type[BaseException] | None", error: "BaseException | None", trace: "types.TracebackType | None") -> "None": ...
    def __new__(cls, /, *args: "typing.Never", **kwargs: "typing.Never") -> Lock: ...
    def __reduce__(self, /) -> "tuple[typing.Any, ...]": ...
    def __repr__(self, /) -> str: ...
    def _acquire(self, /, site: "tuple[types.CodeType, int]", instead: "str") -> "Lease | None":
        """
        Acquires the lock for a body, for the code at `site`. Returns None if a run is remembered. `instead` is what to
        use in a running event loop.
        """
    def _attach(self, /, site: "tuple[types.CodeType, int]", token: "str") -> "collections.abc.Awaitable[AsyncLease]":
        """
        Sends the commands of `attach`, for the code at `site`.
        """
    def _begin_once(self, /, site: "tuple[types.CodeType, int]") -> _Acquire:
        """
        Begins an acquire that tries once, for the code at `site`.
        """
    def _current_leader(self, /) -> "collections.abc.Awaitable[str | None]":
        """
        Sends the commands of `current`.
        """
    def _default(self, /) -> "tuple[typing.Any, ...]":
        """
        The value that a decorated call returns if it cannot acquire the lock. If empty, the call raises LockTimeout.
        """
    def _enter(self, /, frame: "types.FrameType", lease: "AsyncLease", body: "object", interrupted: "object | None") -> "None":
        """
        Records an `async with`: the frame that runs it, its lease, and the object that cancels its task.
        """
    def _forget(self, /, lease: "Lease") -> "None":
        """
        Removes the entry of this lease, whose body does not begin.
        """
    def _given(self, /) -> "list[str] | collections.abc.Callable[..., str | list[str]]":
        """
        The names, or the function that returns them, for a decorator.
        """
    def _hand_over(self, /, lease: "Lease") -> "None":
        """
        Prevents the with statement that holds this lease from releasing it, because another caller will.
        """
    def _inspect(self, /) -> "collections.abc.Awaitable[Inspection]":
        """
        Sends the commands of `inspect`.
        """
    def _leave(self, /, frame: "types.FrameType") -> "tuple[Lease, typing.Any]":
        """
        The end of the `async with` in `frame`: its lease and its body.
        """
    def _named(self, /, names: "str | list[str]") -> "Lock":
        """
        Returns the lock on these names, for a call of a decorated function.
        """
    def _register(self, /, frame: "types.FrameType") -> "object | None":
        """
        Registers an exit with the `AsyncExitStack` that runs in the frame, for an interrupt before the stack does.
        """
    def _start_acquire(self, /, site: "tuple[types.CodeType, int]", wait: "float | datetime.timedelta | None" = None, timeout: "float | datetime.timedelta | None" = None, *args: "typing.Any", **kwargs: "typing.Any") -> _Acquire:
        """
        Begins an acquire, for the code at `site`.
        """
    def acquire(self, /, *, wait: "float | datetime.timedelta | None" = None, timeout: "float | datetime.timedelta | None" = None) -> Lease:
        """
        Acquires the lock, waiting if another client holds it.

        Emits a RuntimeWarning if an event loop runs in this thread. A KeyboardInterrupt before the lease is returned
        leaves no key behind.

        Args:
            wait: Maximum time to wait, in seconds or as a timedelta. 0 tries once, `math.inf` waits forever. Default:
                the lock's own `wait`.
            timeout: Alias of `wait`, in this method only.

        Returns:
            The lease.

        Raises:
            LockTimeout: Another client held the lock all the time.
            QuorumUnavailable: Too few nodes replied all the time.
            ClientClosed: The client was closed.
            InvalidOption: Both `wait` and `timeout` are given.

        Example:
            >>> with lock.acquire(wait=5) as lease:
            ...     lock.acquire(wait=0)
            Traceback (most recent call last):
            redlock.LockTimeout: lock:job: not acquired within ...
        """
    def as_async(self, /) -> AsyncLock:
        """
        Returns the asynchronous form of this lock, whose methods are awaited.

            >>> lease = await lock.as_async().acquire(wait=5)
            >>> await lease.release()
        """
    def attach(self, /, token: "str") -> Lease:
        """
        Continues the lease that another process holds under this token. Raises LockLost if it is not held, and
        Unsupported if the key has data of another type.

        Both processes then hold the lock, and each renews it. A release by either process deletes the key, and the
        other process is notified of a loss. To hand a lease over, call `lease.detach()` in the first process. That
        process may also exit without a release. The lease does not include the fencing token. Pass it on together with
        the token.

            >>> ours = lock.acquire()
            >>> theirs = lock.attach(ours.token)      # as a rule in another process
            >>> ours.detach()                        # the key stays: theirs has it
            True
            >>> theirs.release()
        """
    def inspect(self, /) -> Inspection:
        """
        Returns a snapshot of the holder, as reported by each node. It may be outdated when you read it.

        Raises QuorumUnavailable if fewer nodes than a quorum replied within `node_timeout`.

            >>> lock.inspect().held
            False
        """
    @property
    def key(self, /) -> str:
        """
        The Redis key. The keys of several names are separated by commas.

            >>> client.lock(["a", "b"]).key
            'lock:a, lock:b'
        """
    @property
    def keys(self, /) -> list[str]:
        """
        The Redis keys, in the order of the names.

            >>> client.lock(["a", "b"]).keys
            ['lock:a', 'lock:b']
        """
    @property
    def name(self, /) -> str:
        """
        The name, without the client's prefix. Several names are separated by commas.

            >>> client.lock("job").name
            'job'
        """
    @property
    def names(self, /) -> list[str]:
        """
        The names, without the client's prefix.

            >>> client.lock(["a", "b"]).names
            ['a', 'b']
        """
    def try_acquire(self, /) -> Lease | None:
        """
        Tries once to acquire the lock. Returns the lease, or None if another holder has it.

        Also returns None if another caller in this process waits for the lock. Raises QuorumUnavailable if too few
        nodes replied. A KeyboardInterrupt before the lease is returned leaves no key behind.

            >>> with lock.try_acquire() as lease:
            ...     print(lock.try_acquire())
            None
        """
    @property
    def ttl(self, /) -> float:
        """
        The lifetime of a lease without renewal, in seconds.

            >>> client.lock("job").ttl
            10.0
        """
    @property
    def wait(self, /) -> float | None:
        """
        Maximum time in seconds that an acquire waits. None waits forever.

            >>> client.lock("job", wait=5).wait
            5.0
        """

@final
class NodeInspection:
    """
    The reply of one node for one key.

        >>> with client.lock("job"):
        ...     node = client.lock("job").inspect().nodes[0]
        >>> node.url, node.key, node.state, node.error, len(node.token), node.remaining > 9
        ('memory://', 'lock:job', 'held', None, 8, True)
    """
    def __copy__(self, /) -> NodeInspection: ...
    def __deepcopy__(self, /, memo: "object") -> NodeInspection: ...
    def __reduce__(self, /) -> "tuple[typing.Any, ...]": ...
    def __repr__(self, /) -> str: ...
    @property
    def error(self, /) -> str | None:
        """
        The error text of the node, or why it grants no new lease yet (`restart_guard`).
        """
    @property
    def key(self, /) -> str:
        """
        The Redis key.
        """
    @property
    def label(self, /) -> str | None:
        """
        The owner's label. For `kept`, that of the previous owner. None if it has none.
        """
    @property
    def remaining(self, /) -> float | None:
        """
        The seconds left. None if the lock is free, the node failed, or the end is unknown.
        """
    @property
    def state(self, /) -> redlock.types.NodeState:
        """
        `free`, `held`, `kept` (released, and stays for `min_hold`) or `fault`.
        """
    @property
    def token(self, /) -> str | None:
        """
        The first 8 digits of the owner's token. None if readers share the key, or if it has data of another type.
        """
    @property
    def url(self, /) -> str:
        """
        The node's URL, without its password.
        """

@final
class NodePing:
    """
    The reply of one node to a ping.

        >>> node = client.ping().nodes[0]
        >>> node.url, node.ready, node.ready_in, node.error, node.latency < 1
        ('memory://', True, 0.0, None, True)
    """
    def __copy__(self, /) -> NodePing: ...
    def __deepcopy__(self, /, memo: "object") -> NodePing: ...
    def __reduce__(self, /) -> "tuple[typing.Any, ...]": ...
    def __repr__(self, /) -> str: ...
    @property
    def error(self, /) -> str | None:
        """
        Why it would grant no lock.
        """
    @property
    def latency(self, /) -> float | None:
        """
        Seconds from the call to the reply. The first one includes connecting. None if it did not reply, or with an
        error.
        """
    @property
    def ready(self, /) -> bool:
        """
        Whether it would grant a lock now.
        """
    @property
    def ready_in(self, /) -> float | None:
        """
        Seconds until it would, because of `restart_guard`. 0 if it would now. None if that is unknown.
        """
    @property
    def url(self, /) -> str:
        """
        The node's URL, without its password.
        """

@final
class Once:
    """
    A function that runs once in a given time, over all clients. `run` calls a function, and `@once` decorates one.

        >>> client.once("payment:42", remember=86400).run(len, "charged")
        (True, 7)
        >>> client.once("payment:42", remember=86400).run(len, "charged")
        (False, None)
    """
    def run(self, function: collections.abc.Callable[_P, _R], /, *args: _P.args, **kwargs: _P.kwargs) -> tuple[typing.Literal[True], _R] | tuple[typing.Literal[False], None]:
        """
        Calls the function with these arguments, unless it ran before.

        If the function raises, nothing is remembered, and the next call runs it. After a process died, the function may
        run again when the `ttl` has ended. If too few nodes confirm the memory, this is only logged. The memory then
        lasts at least for the rest of the TTL.

        Args:
            function: The function to call. A loss of the lease does not interrupt it.
            *args: Its arguments.
            **kwargs: Its keyword arguments.

        Returns:
            Whether it ran, and its result: `(True, result)`, or `(False, None)` if it ran before.

        Raises:
            LockTimeout: Another caller runs the function now, and did not end within `wait`.
            LockLost: The lease was lost before the function ended. Another run may have begun, also if it succeeded.
            QuorumUnavailable: Too few nodes replied, before the function was called.
            TypeError: The function is a coroutine function or a generator, or returns an awaitable.

        Example:
            >>> once = client.once("payment:42", remember=86400)
            >>> once.run(int, "7")
            (True, 7)
            >>> once.run(int, "7")
            (False, None)
        """
    @typing.overload
    def __call__(self, function: collections.abc.Callable[_P, collections.abc.Coroutine[typing.Any, typing.Any, _R]]) -> collections.abc.Callable[_P, collections.abc.Coroutine[typing.Any, typing.Any, _R | None]]: ...
    @typing.overload
    def __call__(self, function: collections.abc.Callable[_P, _R]) -> collections.abc.Callable[_P, _R | None]:
        """
        Decorates a function or coroutine function, whose calls run it unless it ran before.

        Braces in the name contain parameters of the function. A call that is skipped returns None. Use `run` if the
        function may return None too.

        Args:
            function: The function to decorate.

        Returns:
            A function with the same parameters.

        Raises:
            TypeError: `function` is a class, a property or a generator.
            InvalidOption: The name contains braces that match no parameter.
        """
    def __new__(cls, /, *args: "typing.Never", **kwargs: "typing.Never") -> Once: ...
    def __reduce__(self, /) -> "tuple[typing.Any, ...]": ...
    def __repr__(self, /) -> str: ...
    @property
    def _lock(self, /) -> Lock:
        """
        The lock under which the body runs.
        """
    @property
    def key(self, /) -> str:
        """
        The Redis key.

            >>> client.once("payment:42", remember=60).key
            'lock:payment:42'
        """

@final
class Ping:
    """
    Whether the nodes would grant locks now, as each of them replied.

        >>> found = client.ping()
        >>> found.ready, found.ready_in, found.nodes[0].error
        (True, 0.0, None)
    """
    def __copy__(self, /) -> Ping: ...
    def __deepcopy__(self, /, memo: "object") -> Ping: ...
    def __reduce__(self, /) -> "tuple[typing.Any, ...]": ...
    def __repr__(self, /) -> str: ...
    @property
    def nodes(self, /) -> list[NodePing]:
        """
        The reply of each node, in the order of `client.nodes`.
        """
    @property
    def ready(self, /) -> bool:
        """
        Whether a quorum of the nodes would grant a lock now.
        """
    @property
    def ready_in(self, /) -> float | None:
        """
        Seconds until a quorum would, if only `restart_guard` prevents it. 0 if it would now. None if too few nodes
        replied.
        """

@disjoint_base
class Redlock:
    """
    A client for one set of Redis nodes.

    The client connects at the first use. `with client:` calls `shutdown(0)` at the end.

    `nodes` is the URL of a server, or a list of URLs of independent servers. A URL begins with
    `redis://[user:password@]host[:port][/db]`, `rediss://` (TLS), `redis+sentinel://host,host/service`,
    `redis+cluster://host,host`, `unix:///path` or `memory://[name]`. Times are seconds or timedelta.

    - key_prefix: Prefix of every key. Default `lock:`. With an empty prefix, keys may clash with those of other
      libraries.
    - node_timeout: Timeout for the reply of one node, in seconds. Default min(1, ttl / 5), with `fsync`
      min(3, ttl / 3).
    - connect_timeout: Timeout for connecting to one node, in seconds. Includes the name lookup, TCP, TLS and login.
      Default 5.
    - restart_guard: With several nodes, a node that started less than this many seconds ago does not vote on new
      locks. No ttl may exceed it. Use the same value on every client. 0 turns it off. Default 60 with
      several nodes, otherwise 0.
    - min_replicas: Number of replicas that must confirm a grant or renewal before the vote of their node counts
      (WAIT). Default 0.
    - fsync: Whether a grant or renewal must be on disk before it counts (WAITAOF). With `appendfsync
      everysec`, this may take two seconds. Default False.
    - tls_ca: Certificates of CAs and servers to trust for `rediss://`, as the path of a PEM file or as its bytes.
      Default the system's CAs.
    - tls_cert: The client's certificate chain, as the path of a PEM file or as its bytes. Requires `tls_key`.
      Default None.
    - tls_key: The private key of `tls_cert`, as the path of a PEM file or as its bytes. Default None.
    - tls_server_name: Name that the server's certificate must contain. Default the URL's host.
    - tls_verify: Whether to verify the server's certificate. Default True. With False, any server is accepted and
      receives the password. Use False only on an isolated network.
    - client_name: Name of the connections in the server's CLIENT LIST and log. Default `redlock`.
    - label: Label of the locks that set none, which other clients show as the holder. True writes the host and the
      process. Default None.
    - credentials: Callback that returns a password, (user, password) or (user, password, lifetime in seconds). It
      is called on a separate thread at each connect, and again before the lifetime ends. Default the URL's user and
      password.
    - address_map: Where to connect to servers of `redis+sentinel://` and `redis+cluster://` that announce other
      addresses, such as behind NAT or Docker. A mapping such as {"10.0.0.1:6379": "127.0.0.1:7001"}, or a function
      that gets a host and a port and returns (host, port), on a separate thread at each connect. Addresses in URLs
      stay as they are. Default None.
    - unavailable_after: Maximum time in seconds without replies from a quorum of nodes, for an acquire without a
      `wait`. It then raises QuorumUnavailable. None sets no limit. Default 10.

    Raises InvalidOption for an invalid value.

        >>> with redlock.Redlock(["memory://a", "memory://b", "memory://c"], key_prefix="app:") as client:
        ...     client.lock("job").key
        'app:job'
    """
    @classmethod
    def from_client(cls, client: typing.Any | collections.abc.Sequence[typing.Any], *, service: str | None=None, key_prefix: str | None=None, node_timeout: float | datetime.timedelta | None=None, connect_timeout: float | datetime.timedelta | None=None, unavailable_after: float | datetime.timedelta | None=..., restart_guard: float | datetime.timedelta | None=None, min_replicas: int | None=None, fsync: bool | None=None, tls_ca: str | os.PathLike[str] | bytes | None=None, tls_cert: str | os.PathLike[str] | bytes | None=None, tls_key: str | os.PathLike[str] | bytes | None=None, tls_server_name: str | None=None, tls_verify: bool | None=None, client_name: str | None=None, label: str | bool | None=None, credentials: collections.abc.Callable[[], str | tuple[str | None, str] | tuple[str | None, str, float | datetime.timedelta | None]] | None=None, address_map: collections.abc.Mapping[str, str] | collections.abc.Callable[[str, int], tuple[str, int]] | None=None) -> typing.Self:
        """
        Returns a client with the settings of a redis-py client. It opens separate connections.

        Address, database, user, password or credential provider, TLS, client name, timeouts and `address_remap` are
        taken from the given client. Options take precedence over them. Does not connect, and does not keep the given
        client.

        Args:
            client: A `redis.Redis`, `redis.asyncio.Redis`, `ConnectionPool`, `RedisCluster` or `Sentinel`. A list of
                them is a quorum of independent nodes.
            service: Name of the service. Only for a `Sentinel`.
            key_prefix: Prefix of every key. This and all further arguments are options of `Redlock`.
            node_timeout: Timeout for the reply of one node, in seconds.
            connect_timeout: Timeout for connecting, in seconds.
            unavailable_after: Time in seconds after which an acquire without `wait` fails if no quorum of nodes
                replies. None waits forever.
            restart_guard: Time in seconds for which a restarted node does not vote.
            min_replicas: Number of replicas that must confirm a grant or renewal.
            fsync: Require that a grant or renewal is on disk.
            tls_ca: Certificates of CAs and servers to trust, as a path or as PEM bytes.
            tls_cert: Client certificate, as a path or as PEM bytes.
            tls_key: Private key of the certificate, as a path or as PEM bytes.
            tls_server_name: Name that the server's certificate must contain.
            tls_verify: Verify the server's certificate.
            client_name: Connection name in the server's `CLIENT LIST`.
            label: Label of the locks that set none. True writes the host and the process.
            credentials: Callback that returns a password, `(user, password)` or `(user, password, seconds)`.
            address_map: Where to connect to servers that announce other addresses, as a mapping or a function.

        Returns:
            The client.

        Raises:
            InvalidOption: `client` is something else, or has a setting without a counterpart that decides which server
                is used or trusted. Other settings without a counterpart cause one warning.

        Example:
            >>> import redis
            >>> redlock.Redlock.from_client(redis.Redis(port=6380, db=1), key_prefix="app:").nodes
            ['redis://localhost:6380/1']
        """
    def __copy__(self, /) -> Redlock: ...
    def __deepcopy__(self, /, memo: "object") -> Redlock: ...
    def __enter__(self, /) -> "typing.Self": ...
    def __exit__(self, /, kind: "type[BaseException] | None", error: "BaseException | None", trace: "types.TracebackType | None") -> "None": ...
    def __new__(cls, /, nodes: "str | list[str] | tuple[str, ...]", *, key_prefix: "str | None" = None, node_timeout: "float | datetime.timedelta | None" = None, connect_timeout: "float | datetime.timedelta | None" = None, restart_guard: "float | datetime.timedelta | None" = None, min_replicas: "int | None" = None, fsync: "bool | None" = None, tls_ca: "str | os.PathLike[str] | bytes | None" = None, tls_cert: "str | os.PathLike[str] | bytes | None" = None, tls_key: "str | os.PathLike[str] | bytes | None" = None, tls_server_name: "str | None" = None, tls_verify: "bool | None" = None, client_name: "str | None" = None, label: "str | bool | None" = None, credentials: "collections.abc.Callable[[], str | tuple[str | None, str] | tuple[str | None, str, float | datetime.timedelta | None]] | None" = None, address_map: "collections.abc.Mapping[str, str] | collections.abc.Callable[[str, int], tuple[str, int]] | None" = None, unavailable_after: "float | datetime.timedelta | None" = ...) -> Redlock: ...
    def __reduce__(self, /) -> "tuple[typing.Any, ...]": ...
    def __repr__(self, /) -> str: ...
    def _force_release(self, /, name: "str | list[str] | tuple[str, ...] | Lock | AsyncLock") -> "collections.abc.Awaitable[bool]":
        """
        Sends the commands of `force_release`.
        """
    def _let_go(self, /) -> None:
        """
        Sends the commands of the end of a `with` and does not wait.
        """
    def _ping(self, /, timeout: "float | datetime.timedelta") -> "collections.abc.Awaitable[Ping]":
        """
        Sends the commands of `ping`.
        """
    def _release_all(self, /) -> "collections.abc.Awaitable[int]":
        """
        Sends the commands of `release_all`.
        """
    def _shutdown(self, /, timeout: "float | datetime.timedelta") -> "collections.abc.Awaitable[int]":
        """
        Begins a shutdown.
        """
    def _stats_reader(self, /) -> "tuple[int, collections.abc.Callable[[], Stats | None]]":
        """
        The number of the client, which all its objects share, and a function that returns its statistics. The function
        does not keep the client alive, and returns None once the program no longer uses it.
        """
    def as_async(self, /) -> AsyncRedlock:
        """
        Returns the asynchronous form of this client. Both share connections, leases and the shutdown.

            >>> await redlock.Redlock("memory://").as_async().shutdown()
            0
        """
    def attach(self, /, name: "str | list[str] | tuple[str, ...]", token: "str", *, ttl: "float | datetime.timedelta | None" = None) -> Lease:
        """
        Continues the lease that another process holds under this token, with this `ttl` (default 10 seconds). Same as
        `lock(name).attach(token)`. Raises LockLost if it is not held.

            >>> theirs = client.attach("job", lease.token, ttl=5)
        """
    def close(self, /) -> None:
        """
        Closes the client at once. Waiting acquires raise ClientClosed, its leases are lost, and their keys expire.

            >>> client.close()
            >>> client.lock("job").acquire()
            Traceback (most recent call last):
            redlock.ClientClosed: lock:job: the client is closed
        """
    def force_release(self, /, name: "str | list[str] | tuple[str, ...] | Lock | AsyncLock") -> bool:
        """
        Deletes the key of a lock, regardless of its holder. Returns True if the key existed. A lock object may be
        passed instead of its name, and must be for the permits of a semaphore.

        The holder is notified of the loss. Raises QuorumUnavailable if too few nodes replied. Raises Unsupported if the
        key has a value that is not a token. It is then no lock, and stays.

            >>> client.force_release("job")
            True
        """
    def leader(self, /, name: "str", *, ttl: "float | datetime.timedelta | None" = None, max_hold: "float | datetime.timedelta | None" = None, node_timeout: "float | datetime.timedelta | None" = None, fencing: "bool | None" = None, label: "str | bool | None" = None) -> Leader:
        """
        Describes a candidate of an election, of which at most one leads at a time. Nothing is sent.

        A leader holds the lock of this name. A campaign has no time limit and survives outages.

        - ttl: Time in seconds after which another candidate takes over from a process that died. The lease is renewed
          while it leads. Minimum 0.1, default 10.
        - max_hold: Maximum time in seconds of a term. The lease is then lost, and the next campaign may win again.
          Default None, which sets no limit.
        - node_timeout: Timeout for the reply of one node, in seconds. Default the client's, else min(1, ttl / 5),
          with `fsync` min(3, ttl / 3).
        - fencing: Whether each term has a fencing token, available as `lease.fencing_token`. Default False.
        - label: Label of this candidate, which `current` returns while it leads. 1 to 48 ASCII letters, digits or
          characters of `._@-`. True writes the host and the process. Default the client's, else True.

        Raises InvalidOption for an invalid value.

            >>> with client.leader("scheduler", ttl=10) as lease:
            ...     lease.held
            True
        """
    def leases(self, /) -> list[Lease]:
        """
        The leases that this client holds now.

            >>> [lease.key for lease in client.leases()]
            ['lock:job']
        """
    @typing.overload
    def lock(self, /, name: "str | list[str] | tuple[str, ...] | collections.abc.Callable[..., str | list[str]]", *, default: "_D", ttl: "float | datetime.timedelta | None" = None, wait: "float | datetime.timedelta | None" = None, renew: "bool | None" = None, max_hold: "float | datetime.timedelta | None" = None, min_hold: "float | datetime.timedelta | None" = None, node_timeout: "float | datetime.timedelta | None" = None, fencing: "bool | None" = None, label: "str | bool | None" = None) -> redlock.types.LockDecorator[_D]: ...
    @typing.overload
    def lock(self, /, name: "str | list[str] | tuple[str, ...] | collections.abc.Callable[..., str | list[str]]", *, ttl: "float | datetime.timedelta | None" = None, wait: "float | datetime.timedelta | None" = None, renew: "bool | None" = None, max_hold: "float | datetime.timedelta | None" = None, min_hold: "float | datetime.timedelta | None" = None, node_timeout: "float | datetime.timedelta | None" = None, fencing: "bool | None" = None, label: "str | bool | None" = None) -> Lock:
        """
        Describes a lock on one name, or on several (1,000 at most) as one. Nothing is sent.

        Times are seconds or timedelta. For a decorator, the name may contain parameters of the decorated function in
        braces. It may also be a function that receives the arguments that it names.

        - ttl: Time in seconds until the lease expires, unless renewed. Minimum 0.1, default 10.
        - wait: Maximum time in seconds that an acquire waits, both for the holder and for failed nodes. 0 tries once.
          Default None, which waits for the holder forever, and for failed nodes up to the client's `unavailable_after`.
        - renew: Whether to renew the lease every third of the ttl until it is released. Default True.
        - max_hold: Maximum time in seconds to hold the lock. The lease is then lost. Default None, which sets no limit.
        - min_hold: Minimum time in seconds to keep the key, even if the lease is released earlier. Default 0.
        - node_timeout: Timeout for the reply of one node, in seconds. Default the client's, else min(1, ttl / 5),
          with `fsync` min(3, ttl / 3).
        - fencing: Whether to issue a fencing token, available as `lease.fencing_token`. Default False.
        - label: Label of this holder in the value of the key, which other clients show as the holder. 1 to 48 ASCII
          letters, digits or characters of `._@-`. True writes the host and the process, False none. Every client that
          can read the keys sees it. Default the client's.
        - default: For decorators, the value that a call returns if it cannot acquire within `wait`. The
          function does not run then. Without `default`, the call raises LockTimeout.

        Raises InvalidOption for an invalid value.

            >>> lock = client.lock("job", ttl=10, wait=5)
            >>> with lock as lease:
            ...     lease.remaining > 9
            True
        """
    @property
    def nodes(self, /) -> list[str]:
        """
        The URLs of the nodes, without user and password.

            >>> redlock.Redlock("redis://user:secret@127.0.0.1:6379/1").nodes
            ['redis://127.0.0.1:6379/1']
        """
    def once(self, /, name: "str | collections.abc.Callable[..., str]", *, remember: "float | datetime.timedelta", ttl: "float | datetime.timedelta | None" = None, wait: "float | datetime.timedelta | None" = None, renew: "bool | None" = None, max_hold: "float | datetime.timedelta | None" = None, node_timeout: "float | datetime.timedelta | None" = None, label: "str | bool | None" = None) -> Once:
        """
        Describes a function that runs once in the time `remember`, over all clients. Nothing is sent.

        It runs under the lock of this name, whose key is kept after a success. A function that raises and a process
        that dies leave no memory, so the next call runs it again. Do not use the same name for a lock. For a
        decorator, the name may contain parameters of the decorated function in braces.

        - remember: How long a successful run is remembered, in seconds or as a timedelta, from its start. Required.
        - ttl: Time in seconds until the run of a process that died may be repeated. The lease is renewed while the
          function runs. Minimum 0.1, default 10.
        - wait: Maximum time in seconds to wait while another caller runs the function, and for failed nodes.
          Default 0, which raises LockTimeout at once.
        - renew: Whether to renew the lease every third of the ttl. Default True.
        - max_hold: Maximum time in seconds that a run takes. The lease is then lost. Default None, which sets no
          limit.
        - node_timeout: Timeout for the reply of one node, in seconds. Default the client's, else min(1, ttl / 5),
          with `fsync` min(3, ttl / 3).
        - label: Label of this caller in the value of the key, which other clients show. 1 to 48 ASCII letters,
          digits or characters of `._@-`. True writes the host and the process, False none. Default the client's.

        Raises InvalidOption for an invalid value.

            >>> ran, value = client.once("payment:42", remember=86400).run(len, "charged")
            >>> ran, value
            (True, 7)
            >>> @client.once("payment:{id}", remember=86400)
            ... def charge(id): return "charged"
            >>> charge(42), charge(43)  # None: the first ran before
            (None, 'charged')
        """
    def ping(self, /, timeout: "float | datetime.timedelta" = 1) -> Ping:
        """
        Asks each node whether it would grant a lock now, for readiness probes. No lock is acquired.

        It sends a write without effect, which a replica, a server that is loading, and one without memory or disk
        refuse. Nodes that fail are part of the result, and no error.

        Args:
            timeout: Maximum time to wait for all replies, in seconds or as a timedelta. Default 1.

        Returns:
            A `Ping`, whose `ready` is True if a quorum of the nodes would grant a lock.

        Raises:
            ClientClosed: The client was closed.
            InvalidOption: `timeout` is 0 or invalid.

        Example:
            >>> client.ping(timeout=0.5).ready
            True
        """
    def release_all(self, /) -> int:
        """
        Releases all leases of this client and returns their number.

        Code that still runs under one of them receives LockLost with reason `revoked`. Raises the first error after
        trying to release all of them.

            >>> client.release_all()
            1
        """
    def rwlock(self, /, name: "str | collections.abc.Callable[..., str]", *args: "typing.Never", **kwargs: "typing.Never") -> RwLock:
        """
        Describes a read/write lock: any number of readers hold it at a time, or one writer. Nothing is sent.

        `read()` and `write()` of the result return its sides, which are locks with options. Readers and
        writers that wait take turns.

        Raises InvalidOption for an invalid name.

            >>> @client.rwlock("config:{tenant}").read(ttl=10)
            ... def load(tenant): return len(tenant)
            >>> load("acme")
            4
        """
    @typing.overload
    def semaphore(self, /, name: "str | list[str] | tuple[str, ...] | collections.abc.Callable[..., str | list[str]]", limit: "int", *, default: "_D", permits: "int | None" = None, ttl: "float | datetime.timedelta | None" = None, wait: "float | datetime.timedelta | None" = None, renew: "bool | None" = None, max_hold: "float | datetime.timedelta | None" = None, min_hold: "float | datetime.timedelta | None" = None, node_timeout: "float | datetime.timedelta | None" = None, label: "str | bool | None" = None) -> redlock.types.LockDecorator[_D]: ...
    @typing.overload
    def semaphore(self, /, name: "str | list[str] | tuple[str, ...] | collections.abc.Callable[..., str | list[str]]", limit: "int", *, permits: "int | None" = None, ttl: "float | datetime.timedelta | None" = None, wait: "float | datetime.timedelta | None" = None, renew: "bool | None" = None, max_hold: "float | datetime.timedelta | None" = None, min_hold: "float | datetime.timedelta | None" = None, node_timeout: "float | datetime.timedelta | None" = None, label: "str | bool | None" = None) -> Lock:
        """
        Describes a semaphore: at most `limit` of its permits have owners at a time. Nothing is sent.

        It is used like a lock, and each lease has one permit, or `permits`. Each permit is a key that expires with its
        lease, so a process that dies loses none. Fencing tokens and `attach` are not available.

        - limit: Number of permits, 1 to 1000, and meant for up to 100. If clients use different limits, the largest
          applies.
        - permits: Number of permits of each lease, up to `limit`. An acquire gets all of them or none. Default 1.
        - ttl: Time in seconds until the lease expires, unless renewed. Minimum 0.1, default 10.
        - wait: Maximum time in seconds that an acquire waits, both for permits and for failed nodes. 0 tries without
          waiting, in up to four rounds. Default None, which waits for permits forever, and for failed nodes up to the
          client's `unavailable_after`.
        - renew: Whether to renew the lease every third of the ttl until it is released. Default True.
        - max_hold: Maximum time in seconds to hold the permits. The lease is then lost. Default None, which sets no
          limit.
        - min_hold: Minimum time in seconds to keep the permits, even if the lease is released earlier. With
          `min_hold=1`, at most `limit` leases begin in any second. Default 0.
        - node_timeout: Timeout for the reply of one node, in seconds. Default the client's, else min(1, ttl / 5),
          with `fsync` min(3, ttl / 3).
        - label: Label of this holder in the value of the keys, which `inspect` shows. 1 to 48 ASCII letters, digits or
          characters of `._@-`. True writes the host and the process, False none. Default the client's.
        - default: For decorators, the value that a call returns if it cannot acquire within `wait`. The
          function does not run then. Without `default`, the call raises LockTimeout.

        Raises InvalidOption for an invalid value.

            >>> @client.semaphore("exports:{user}", 2, wait=0, default="busy")
            ... def export(user): return len(user)
            >>> export("eve")
            3
        """
    def shutdown(self, /, timeout: "float | datetime.timedelta" = 10) -> "int":
        """
        Ends the client in order. Returns how many leases were still held at the timeout, or 0 if the client is already
        closed.

        From the call on, new acquires raise ClientClosed. Acquires that wait already have `timeout` to get their lease,
        and held leases to be released. At the timeout, acquires that still wait raise ClientClosed. Leases that are
        still held are released, and their holders are notified: LockLost, reason `revoked`. A node that cannot be
        reached and has pending deletes gets until `timeout` to return. A KeyboardInterrupt ends only the wait. The
        shutdown continues in the background.

        Args:
            timeout: Seconds or a timedelta, default 10. With 0, acquires that wait and held leases end at once.

        Raises:
            QuorumUnavailable: Too few nodes confirmed the releases, or the call blocks an event loop that must end an
                acquire. Those keys expire when their TTL ends. The client is closed nevertheless.

            >>> client.shutdown(timeout=0)            # a lease is still held
            1
        """
    def stats(self, /) -> Stats:
        """
        Returns statistics of this client in this process. In a forked child they start at 0.

            >>> with client.lock("job"):
            ...     client.stats().held
            1
        """

@final
class RwLock:
    """
    A read/write lock: any number of readers hold it at a time, or one writer. Its sides are locks.

        >>> config = client.rwlock("config")
        >>> with config.read():
        ...     config.write().try_acquire() is None
        True
    """
    def __copy__(self, /) -> RwLock: ...
    def __deepcopy__(self, /, memo: "object") -> RwLock: ...
    def __new__(cls, /, *args: "typing.Never", **kwargs: "typing.Never") -> RwLock: ...
    def __reduce__(self, /) -> "tuple[typing.Any, ...]": ...
    def __repr__(self, /) -> str: ...
    def as_async(self, /) -> AsyncRwLock:
        """
        Returns the asynchronous form of this lock.

            >>> async with client.rwlock("config").as_async().read() as lease:
            ...     lease.key
            'lock:config'
        """
    @property
    def key(self, /) -> str:
        """
        The Redis key.

            >>> client.rwlock("config").key
            'lock:config'
        """
    @property
    def name(self, /) -> str:
        """
        The name, without the client's prefix.

            >>> client.rwlock("config").name
            'config'
        """
    @typing.overload
    def read(self, /, *, default: "_D", ttl: "float | datetime.timedelta | None" = None, wait: "float | datetime.timedelta | None" = None, renew: "bool | None" = None, max_hold: "float | datetime.timedelta | None" = None, node_timeout: "float | datetime.timedelta | None" = None, label: "str | bool | None" = None) -> redlock.types.LockDecorator[_D]: ...
    @typing.overload
    def read(self, /, *, ttl: "float | datetime.timedelta | None" = None, wait: "float | datetime.timedelta | None" = None, renew: "bool | None" = None, max_hold: "float | datetime.timedelta | None" = None, node_timeout: "float | datetime.timedelta | None" = None, label: "str | bool | None" = None) -> Lock:
        """
        Describes the lock of a reader, which other readers share. Nothing is sent.

        A waiting writer comes before further readers, so do not acquire it again while you hold it: both may wait for
        each other. A reader that dies delays a writer by its TTL and at most one second more. Fencing tokens and
        `min_hold` are not available.

        - ttl: Time in seconds until the lease expires, unless renewed. Minimum 0.1, default 10.
        - wait: Maximum time in seconds that an acquire waits, both for the holder and for failed nodes. 0 tries once.
          Default None, which waits for the holder forever, and for failed nodes up to the client's `unavailable_after`.
        - renew: Whether to renew the lease every third of the ttl until it is released. Default True.
        - max_hold: Maximum time in seconds to hold the lock. The lease is then lost. Default None, which sets no limit.
        - node_timeout: Timeout for the reply of one node, in seconds. Default the client's, else min(1, ttl / 5),
          with `fsync` min(3, ttl / 3).
        - label: Label of this holder in the value of the key, which other clients show as the holder. 1 to 48 ASCII
          letters, digits or characters of `._@-`. True writes the host and the process, False none. Every client that
          can read the keys sees it. Default the client's.
        - default: For decorators, the value that a call returns if it cannot acquire within `wait`. The
          function does not run then. Without `default`, the call raises LockTimeout.

        Raises InvalidOption for an invalid value.

            >>> config = client.rwlock("config")
            >>> with config.read(ttl=10) as lease:
            ...     config.read().inspect().mode
            'read'
        """
    @typing.overload
    def write(self, /, *, default: "_D", ttl: "float | datetime.timedelta | None" = None, wait: "float | datetime.timedelta | None" = None, renew: "bool | None" = None, max_hold: "float | datetime.timedelta | None" = None, min_hold: "float | datetime.timedelta | None" = None, node_timeout: "float | datetime.timedelta | None" = None, fencing: "bool | None" = None, label: "str | bool | None" = None) -> redlock.types.LockDecorator[_D]: ...
    @typing.overload
    def write(self, /, *, ttl: "float | datetime.timedelta | None" = None, wait: "float | datetime.timedelta | None" = None, renew: "bool | None" = None, max_hold: "float | datetime.timedelta | None" = None, min_hold: "float | datetime.timedelta | None" = None, node_timeout: "float | datetime.timedelta | None" = None, fencing: "bool | None" = None, label: "str | bool | None" = None) -> Lock:
        """
        Describes the lock of a writer, which excludes everyone. Nothing is sent.

        `lock()` on the same name excludes readers and writers too, but takes no turns with waiting readers.

        - ttl: Time in seconds until the lease expires, unless renewed. Minimum 0.1, default 10.
        - wait: Maximum time in seconds that an acquire waits, both for the holder and for failed nodes. 0 tries once.
          Default None, which waits for the holder forever, and for failed nodes up to the client's `unavailable_after`.
        - renew: Whether to renew the lease every third of the ttl until it is released. Default True.
        - max_hold: Maximum time in seconds to hold the lock. The lease is then lost. Default None, which sets no limit.
        - min_hold: Minimum time in seconds to keep the key, even if the lease is released earlier. Default 0.
        - node_timeout: Timeout for the reply of one node, in seconds. Default the client's, else min(1, ttl / 5),
          with `fsync` min(3, ttl / 3).
        - fencing: Whether to issue a fencing token, available as `lease.fencing_token`. Default False.
        - label: Label of this holder in the value of the key, which other clients show as the holder. 1 to 48 ASCII
          letters, digits or characters of `._@-`. True writes the host and the process, False none. Every client that
          can read the keys sees it. Default the client's.
        - default: For decorators, the value that a call returns if it cannot acquire within `wait`. The
          function does not run then. Without `default`, the call raises LockTimeout.

        Raises InvalidOption for an invalid value.

            >>> config = client.rwlock("config")
            >>> with config.write(ttl=10):
            ...     config.read().try_acquire() is None
            True
        """

@final
class Stats:
    """
    Statistics of a client in this process. Times are in seconds. `dict(stats)` has the same names and values.

        >>> client.stats().granted, client.stats().lost["expired"]
        (0, 0)
        >>> dict(client.stats())["granted"]
        0
    """
    def __copy__(self, /) -> Stats: ...
    def __deepcopy__(self, /, memo: "object") -> Stats: ...
    def __getitem__(self, name: str, /) -> Any: ...
    def __reduce__(self, /) -> "tuple[typing.Any, ...]": ...
    def __repr__(self, /) -> str: ...
    @property
    def granted(self, /) -> int:
        """
        Acquires that returned a lease.
        """
    @property
    def held(self, /) -> int:
        """
        Leases that are held now.
        """
    def keys(self, /) -> "list[str]":
        """
        The names, for `dict(stats)`.
        """
    @property
    def lost(self, /) -> dict[redlock.types.LossReason, int]:
        """
        Lost leases, by reason. Contains every reason. `forked` stays 0, because a forked child does not count the
        leases of its parent.
        """
    @property
    def reconnects(self, /) -> int:
        """
        Connections that were opened again after one ended.
        """
    @property
    def refused(self, /) -> int:
        """
        Calls of `try_acquire` that found another holder.
        """
    @property
    def released(self, /) -> int:
        """
        Leases that their owner released.
        """
    @property
    def renewed(self, /) -> int:
        """
        Renewals that a quorum confirmed.
        """
    @property
    def time_held(self, /) -> float:
        """
        Total time that released and lost leases were held.
        """
    @property
    def time_waited(self, /) -> float:
        """
        Total time that acquires waited, until the round that granted the lease or until `wait` was over.
        """
    @property
    def timed_out(self, /) -> int:
        """
        Acquires whose `wait` was over.
        """
    @property
    def unavailable(self, /) -> int:
        """
        Acquires for which too few nodes replied.
        """
    @property
    def unrenewed(self, /) -> int:
        """
        Renewals that no quorum confirmed. Each is retried until the lease ends.
        """
    @property
    def waiting(self, /) -> int:
        """
        Acquires that are under way now.
        """

@final
class _Acquire:
    """
    One acquire that has begun. Dropping it releases a grant that was not taken.
    """
    def accept(self, /) -> bool:
        """
        Whether the reply is still valid now that the task runs. If true, call `lease`. If false, the lease has expired
        in the meantime, so call `start` again.
        """
    def give_up(self, /) -> None:
        """
        Ends the acquire, and releases a lease that was granted in the meantime.
        """
    def lease(self, /) -> AsyncLease | None:
        """
        Returns the lease, or None if an acquire that tries once found the lock held.
        """
    def start(self, /) -> "asyncio.Future[None]":
        """
        Starts the acquire, or repeats it. Returns an asyncio future that is done when it has a result. Then call
        `accept`.
        """

@final
class _Steps:
    """
    An advance from one deadline to the next, for a coroutine that may stop it. Dropping this also stops it.
    """
    def __new__(cls, /) -> _Steps: ...
    def start(self, /, name: "str", seconds: "float | datetime.timedelta") -> "asyncio.Future[None]":
        """
        Begins. Returns an asyncio future that is done at the end.
        """
    def stop(self, /) -> None:
        """
        Takes no further step.
        """

def _advance_memory(name: "str", seconds: "float | datetime.timedelta") -> "None":
    """
    Advances the clock of the clients whose only node is `memory://name`.
    """

def _client(identity: "str", nodes: "list[str]", options: "dict[str, typing.Any]") -> Redlock:
    """
    Returns the client of a pickle. All pickles of one client return the same client while it exists in this process.
    """

def _command_line(words: "list[str]") -> "typing.Never":
    """
    Runs the command line with these words, the first of which is the name of the program. Ends the process.
    """

def _conclude(problem: "redlock.errors.LockError", error: "BaseException | None") -> "None":
    """
    Ends the `with` of a client whose shutdown failed.
    """

def _fail_memory(name: "str", down: "bool") -> "None":
    """
    Makes the node `memory://name` fail every command, or reply again.
    """

def _leader(lock: "Lock") -> "Leader":
    """
    Returns the candidate of a pickle, whose lock this is.
    """

def _lock(client: "Redlock | None", names: "typing.Any", options: "dict[str, typing.Any]", default: "tuple[typing.Any, ...]") -> Lock:
    """
    Returns the lock of a pickle. Without a client, it is a lock of the default client.
    """

def _log_by(start: "collections.abc.Callable[[], object]") -> "None":
    """
    Sets the function that starts logging. A process calls it until it has returned once, and a forked child again.
    """

def _log_from(topic: "str", level: "int") -> "None":
    """
    Sets the lowest level that the logger of this topic wants, as a `logging` level.
    """

def _make_classes() -> "None":
    """
    Creates the classes, and imports those of errors.
    """

def _now() -> "float":
    """
    Returns the seconds of a clock that no test library replaces.
    """

def _observe_by(observer: "collections.abc.Callable[[str, float, str, str | None, str | None], object] | None") -> "None":
    """
    Sets the function that is called after each acquire. None removes it.
    """

def _once(lock: "Lock", is_async: "bool") -> "Once | AsyncOnce":
    """
    Returns the run of a pickle, whose lock this is.
    """

def _rwlock(writer: "Lock") -> RwLock:
    """
    Returns the read/write lock of a pickle, whose side of writers this is.
    """

def _set_trio(running: "collections.abc.Callable[[], object | None]") -> "None":
    """
    Sets the function that returns the running trio. It is called only after the program has imported trio.
    """

def _snapshot(name: "str", fields: "dict[str, typing.Any]") -> "typing.Any":
    """
    Returns the snapshot of a pickle.
    """

def _step_memory(name: "str", seconds: "float | datetime.timedelta") -> "None":
    """
    Advances that clock from one deadline to the next, and waits for the renewals and losses on the way.
    """

def _swap_default(other: "tuple[Redlock, bool] | None") -> "tuple[Redlock, bool] | None":
    """
    Replaces the default client and its used flag. Returns the previous values.
    """

def configure(nodes: "str | list[str] | tuple[str, ...]", *, replace: "bool | None" = None, key_prefix: "str | None" = None, node_timeout: "float | datetime.timedelta | None" = None, connect_timeout: "float | datetime.timedelta | None" = None, restart_guard: "float | datetime.timedelta | None" = None, min_replicas: "int | None" = None, fsync: "bool | None" = None, tls_ca: "str | os.PathLike[str] | bytes | None" = None, tls_cert: "str | os.PathLike[str] | bytes | None" = None, tls_key: "str | os.PathLike[str] | bytes | None" = None, tls_server_name: "str | None" = None, tls_verify: "bool | None" = None, client_name: "str | None" = None, label: "str | bool | None" = None, credentials: "collections.abc.Callable[[], str | tuple[str | None, str] | tuple[str | None, str, float | datetime.timedelta | None]] | None" = None, address_map: "collections.abc.Mapping[str, str] | collections.abc.Callable[[str, int], tuple[str, int]] | None" = None, unavailable_after: "float | datetime.timedelta | None" = ...) -> Redlock:
    """
    Configures the default client and returns it.

    Without this call, the default client uses REDLOCK_NODES, then REDIS_URL, then redis://127.0.0.1:6379.

    The options are those of `Redlock`. Raises InvalidOption for an invalid value. Also raises it if the default
    client is already in use, unless `replace` is true.

        >>> client = redlock.configure(["memory://"], replace=True)
        >>> redlock.lock("job").inspect().nodes[0].url
        'memory://'
    """

def leader(name: "str", *, ttl: "float | datetime.timedelta | None" = None, max_hold: "float | datetime.timedelta | None" = None, node_timeout: "float | datetime.timedelta | None" = None, fencing: "bool | None" = None, label: "str | bool | None" = None) -> Leader:
    """
    Describes a candidate of an election, of which at most one leads at a time. Nothing is sent.

    A leader holds the lock of this name. A campaign has no time limit and survives outages.

    Each call looks up the default client, which `configure` sets.

    - ttl: Time in seconds after which another candidate takes over from a process that died. The lease is renewed
      while it leads. Minimum 0.1, default 10.
    - max_hold: Maximum time in seconds of a term. The lease is then lost, and the next campaign may win again.
      Default None, which sets no limit.
    - node_timeout: Timeout for the reply of one node, in seconds. Default the client's, else min(1, ttl / 5),
      with `fsync` min(3, ttl / 3).
    - fencing: Whether each term has a fencing token, available as `lease.fencing_token`. Default False.
    - label: Label of this candidate, which `current` returns while it leads. 1 to 48 ASCII letters, digits or
      characters of `._@-`. True writes the host and the process. Default the client's, else True.

    Raises InvalidOption for an invalid value.

        >>> redlock.leader("scheduler").run(lambda lease: "led")
        'led'
    """

@typing.overload
def lock(name: "str | list[str] | tuple[str, ...] | collections.abc.Callable[..., str | list[str]]", *, default: "_D", ttl: "float | datetime.timedelta | None" = None, wait: "float | datetime.timedelta | None" = None, renew: "bool | None" = None, max_hold: "float | datetime.timedelta | None" = None, min_hold: "float | datetime.timedelta | None" = None, node_timeout: "float | datetime.timedelta | None" = None, fencing: "bool | None" = None, label: "str | bool | None" = None) -> redlock.types.LockDecorator[_D]: ...
@typing.overload
def lock(name: "str | list[str] | tuple[str, ...] | collections.abc.Callable[..., str | list[str]]", *, ttl: "float | datetime.timedelta | None" = None, wait: "float | datetime.timedelta | None" = None, renew: "bool | None" = None, max_hold: "float | datetime.timedelta | None" = None, min_hold: "float | datetime.timedelta | None" = None, node_timeout: "float | datetime.timedelta | None" = None, fencing: "bool | None" = None, label: "str | bool | None" = None) -> Lock:
    """
    Describes a lock on one name, or on several (1,000 at most) as one. Nothing is sent.

    Times are seconds or timedelta. For a decorator, the name may contain parameters of the decorated function in
    braces. It may also be a function that receives the arguments that it names.
    Each acquire looks up the default client, which `configure` sets.

    - ttl: Time in seconds until the lease expires, unless renewed. Minimum 0.1, default 10.
    - wait: Maximum time in seconds that an acquire waits, both for the holder and for failed nodes. 0 tries once.
      Default None, which waits for the holder forever, and for failed nodes up to the client's `unavailable_after`.
    - renew: Whether to renew the lease every third of the ttl until it is released. Default True.
    - max_hold: Maximum time in seconds to hold the lock. The lease is then lost. Default None, which sets no limit.
    - min_hold: Minimum time in seconds to keep the key, even if the lease is released earlier. Default 0.
    - node_timeout: Timeout for the reply of one node, in seconds. Default the client's, else min(1, ttl / 5),
      with `fsync` min(3, ttl / 3).
    - fencing: Whether to issue a fencing token, available as `lease.fencing_token`. Default False.
    - label: Label of this holder in the value of the key, which other clients show as the holder. 1 to 48 ASCII
      letters, digits or characters of `._@-`. True writes the host and the process, False none. Every client that
      can read the keys sees it. Default the client's.
    - default: For decorators, the value that a call returns if it cannot acquire within `wait`. The function
      does not run then. Without `default`, the call raises LockTimeout.

    Raises InvalidOption for an invalid value.

        >>> with redlock.lock("job", ttl=10) as lease:
        ...     lease.held
        True
    """

def once(name: "str | collections.abc.Callable[..., str]", *, remember: "float | datetime.timedelta", ttl: "float | datetime.timedelta | None" = None, wait: "float | datetime.timedelta | None" = None, renew: "bool | None" = None, max_hold: "float | datetime.timedelta | None" = None, node_timeout: "float | datetime.timedelta | None" = None, label: "str | bool | None" = None) -> Once:
    """
    Describes a function that runs once in the time `remember`, over all clients. Nothing is sent.

    It runs under the lock of this name, whose key is kept after a success. A function that raises and a process
    that dies leave no memory, so the next call runs it again. Do not use the same name for a lock. For a
    decorator, the name may contain parameters of the decorated function in braces.

    Each call looks up the default client, which `configure` sets.

    - remember: How long a successful run is remembered, in seconds or as a timedelta, from its start. Required.
    - ttl: Time in seconds until the run of a process that died may be repeated. The lease is renewed while the
      function runs. Minimum 0.1, default 10.
    - wait: Maximum time in seconds to wait while another caller runs the function, and for failed nodes.
      Default 0, which raises LockTimeout at once.
    - renew: Whether to renew the lease every third of the ttl. Default True.
    - max_hold: Maximum time in seconds that a run takes. The lease is then lost. Default None, which sets no
      limit.
    - node_timeout: Timeout for the reply of one node, in seconds. Default the client's, else min(1, ttl / 5),
      with `fsync` min(3, ttl / 3).
    - label: Label of this caller in the value of the key, which other clients show. 1 to 48 ASCII letters,
      digits or characters of `._@-`. True writes the host and the process, False none. Default the client's.

    Raises InvalidOption for an invalid value.

        >>> @redlock.once("payment:{id}", remember=86400)
        ... def charge(id): return "charged"
        >>> charge(42), charge(42)
        ('charged', None)
    """

def rwlock(name: "str | collections.abc.Callable[..., str]", *args: "typing.Never", **kwargs: "typing.Never") -> RwLock:
    """
    Describes a read/write lock: any number of readers hold it at a time, or one writer. Nothing is sent.

    `read()` and `write()` of the result return its sides, which are locks with options. Readers and
    writers that wait take turns. Each acquire looks up the default client, which `configure` sets.

    Raises InvalidOption for an invalid name.

        >>> config = redlock.rwlock("config")
        >>> with config.read(ttl=10) as lease:
        ...     lease.held
        True
    """

@typing.overload
def semaphore(name: "str | list[str] | tuple[str, ...] | collections.abc.Callable[..., str | list[str]]", limit: "int", *, default: "_D", permits: "int | None" = None, ttl: "float | datetime.timedelta | None" = None, wait: "float | datetime.timedelta | None" = None, renew: "bool | None" = None, max_hold: "float | datetime.timedelta | None" = None, min_hold: "float | datetime.timedelta | None" = None, node_timeout: "float | datetime.timedelta | None" = None, label: "str | bool | None" = None) -> redlock.types.LockDecorator[_D]: ...
@typing.overload
def semaphore(name: "str | list[str] | tuple[str, ...] | collections.abc.Callable[..., str | list[str]]", limit: "int", *, permits: "int | None" = None, ttl: "float | datetime.timedelta | None" = None, wait: "float | datetime.timedelta | None" = None, renew: "bool | None" = None, max_hold: "float | datetime.timedelta | None" = None, min_hold: "float | datetime.timedelta | None" = None, node_timeout: "float | datetime.timedelta | None" = None, label: "str | bool | None" = None) -> Lock:
    """
    Describes a semaphore: at most `limit` of its permits have owners at a time. Nothing is sent.

    It is used like a lock, and each lease has one permit, or `permits`. Each permit is a key that expires with its
    lease, so a process that dies loses none. Fencing tokens and `attach` are not available.
    Each acquire looks up the default client, which `configure` sets.

    - limit: Number of permits, 1 to 1000, and meant for up to 100. If clients use different limits, the largest
      applies.
    - permits: Number of permits of each lease, up to `limit`. An acquire gets all of them or none. Default 1.
    - ttl: Time in seconds until the lease expires, unless renewed. Minimum 0.1, default 10.
    - wait: Maximum time in seconds that an acquire waits, both for permits and for failed nodes. 0 tries without
      waiting, in up to four rounds. Default None, which waits for permits forever, and for failed nodes up to the
      client's `unavailable_after`.
    - renew: Whether to renew the lease every third of the ttl until it is released. Default True.
    - max_hold: Maximum time in seconds to hold the permits. The lease is then lost. Default None, which sets no
      limit.
    - min_hold: Minimum time in seconds to keep the permits, even if the lease is released earlier. With
      `min_hold=1`, at most `limit` leases begin in any second. Default 0.
    - node_timeout: Timeout for the reply of one node, in seconds. Default the client's, else min(1, ttl / 5),
      with `fsync` min(3, ttl / 3).
    - label: Label of this holder in the value of the keys, which `inspect` shows. 1 to 48 ASCII letters, digits or
      characters of `._@-`. True writes the host and the process, False none. Default the client's.
    - default: For decorators, the value that a call returns if it cannot acquire within `wait`. The function
      does not run then. Without `default`, the call raises LockTimeout.

    Raises InvalidOption for an invalid value.

        >>> with redlock.semaphore("exports", 2):
        ...     with redlock.semaphore("exports", 2):
        ...         redlock.semaphore("exports", 2).try_acquire() is None
        True
    """
