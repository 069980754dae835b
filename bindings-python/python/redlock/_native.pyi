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
from typing import Any, Final, final

_P = typing.ParamSpec("_P")
_D = typing.TypeVar("_D")
_T = typing.TypeVar("_T")
_R = typing.TypeVar("_R")

class _Skipping(typing.Generic[_D]):
    @typing.overload
    def __call__(self, function: collections.abc.Callable[_P, collections.abc.Coroutine[typing.Any, typing.Any, _R]]) -> collections.abc.Callable[_P, collections.abc.Coroutine[typing.Any, typing.Any, _R | _D]]: ...
    @typing.overload
    def __call__(self, function: collections.abc.Callable[_P, _R]) -> collections.abc.Callable[_P, _R | _D]: ...

class _Acquiring(collections.abc.Coroutine[typing.Any, typing.Any, Lease]):
    def __init__(self, coroutine: collections.abc.Coroutine[typing.Any, typing.Any, Lease]) -> None: ...
    def __await__(self) -> collections.abc.Generator[typing.Any, None, Lease]: ...
    async def __aenter__(self) -> Lease: ...
    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None) -> None: ...
    def send(self, value: typing.Any) -> typing.Any: ...
    def throw(self, *error: typing.Any) -> typing.Any: ...
    def close(self) -> None: ...
    __slots__ = ()
from typing_extensions import disjoint_base

__all__ = ["__version__", "Inspection", "Lease", "Lock", "NodeInspection", "Redlock", "Stats", "_Acquire", "_advance_memory", "_client", "_conclude", "_fail_memory", "_lock", "_log_by", "_log_from", "_make_classes", "_now", "_observe_by", "_set_trio", "_swap_default", "configure", "lock"]

__version__: Final[str]
"""
The package's version, which is that of the crate and of the npm package.
"""

@final
class Inspection:
    """
    Who holds a lock, by each node's word: a snapshot.

        >>> found = client.lock("job").inspect()
        >>> found.held, found.remaining, found.nodes[0].state
        (False, None, 'free')
    """
    def __repr__(self, /) -> str: ...
    @property
    def held(self, /) -> bool:
        """
        One owner has it on a quorum of nodes.
        """
    @property
    def nodes(self, /) -> list[NodeInspection]:
        """
        Each node's word on each key.
        """
    @property
    def remaining(self, /) -> float | None:
        """
        The seconds left of it there; None when free, or without a known end. Where it is not held, how long it stays.
        """

@final
class Lease:
    """
    What you hold: renewed in the background until released, lost, or collected.

    `with lease:` and `async with lease:` release it at the end. They raise LockLost if it is over, and RuntimeError if a with
    statement has entered it already. A lease that is collected without a release is not
    released: its renewal ends, the key lives out its ttl, and a ResourceWarning names it.

        >>> with client.lock("job").acquire() as lease:
        ...     lease.held
        True
    """
    async def aextend(self, ttl: float | datetime.timedelta | None=None) -> None:
        """
        `extend` for asyncio.

        >>> await lease.aextend(ttl=30)
        """
    async def arelease(self) -> None:
        """
        `release` for asyncio. A cancellation ends only the wait for the confirmation: the release has been sent.

        >>> await lease.arelease()
        """
    async def __aenter__(self) -> Lease: ...
    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None) -> None: ...
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
    def _enter(self, /, body: "object") -> "None":
        """
        Begins an `async with` over the lease itself.
        """
    def _extend(self, /, ttl: "float | datetime.timedelta | None") -> "collections.abc.Awaitable[None]":
        """
        Sends what `aextend` does.
        """
    def _leave(self, /) -> "typing.Any":
        """
        Ends it, and returns its body.
        """
    def _let_go(self, /) -> None:
        """
        Sends the release and does not wait.
        """
    def _loss(self, /) -> "redlock.errors.LockLost | None":
        """
        Why it was lost, if it was.
        """
    def _on_lost(self, /, callback: "collections.abc.Callable[[redlock.errors.LockLost], object]") -> "None":
        """
        The same for what needs neither its context nor an end.
        """
    def _release(self, /) -> "collections.abc.Awaitable[None]":
        """
        Sends what `arelease` does. A cancellation then ends only the wait for the confirmation.
        """
    def detach(self, /) -> bool:
        """
        Ends it here and leaves the key, which lives out its ttl or goes on under who attached to its token.

        True if it was still held. To hand a lease over: pass `token` on, wait for the other's `attach`, detach.

            >>> lease.detach(), client.lock("job").inspect().held
            (True, True)
        """
    def ensure_held(self, /) -> None:
        """
        Raises LockLost when it was lost, LockReleased when it was released: ask before you write. No question to the nodes.

            >>> lease.ensure_held()
            >>> lease.release()
            >>> lease.ensure_held()
            Traceback (most recent call last):
            redlock.LockReleased: lock:job: the lease was released and is no longer held
        """
    def extend(self, /, ttl: "float | datetime.timedelta | None" = None) -> None:
        """
        Makes it last at least `ttl` seconds from now (default: its own ttl); also the ttl of later renewals. Never
        shortens.

        Raises LockLost once it is over, QuorumUnavailable when too few nodes answered; then it goes on to its end. Raises
        InvalidOption for a ttl below 0.1, or above `restart_guard` over several nodes.

            >>> lease.extend(ttl=30)
            >>> lease.ttl, lease.remaining > 29
            (30.0, True)
        """
    @property
    def fencing_token(self, /) -> int:
        """
        Larger than that of every earlier lease of the lock: a resource that keeps the largest one can refuse who is late.

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
        Whether it is still ours for sure, by the clock: no question to the nodes.

            >>> lease.held
            True
        """
    @property
    def key(self, /) -> str:
        """
        The Redis key, or keys separated by commas.

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
        Calls `callback(error)` once with the LockLost, when the lease is lost; soon, if it is lost already. Never after a
        release.

        On the running event loop, or else on a thread for such calls; in the context (`contextvars`) of who registered it.
        On a loop it may be a coroutine function, which is run as a task. What this returns unregisters it when called.
        Raises InvalidOption for what cannot be called, and for a coroutine function where no event loop runs.

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
        Gives it back. A second time does nothing; after a loss it raises LockLost.

        Raises QuorumUnavailable when too few nodes confirmed within `node_timeout`: the keys then expire by themselves.

            >>> lease.release()
            >>> lease.held
            False
        """
    @property
    def remaining(self, /) -> float:
        """
        The seconds for which it is ours for sure; 0 when it is over.

            >>> 9 < lease.remaining < lease.ttl
            True
        """
    @property
    def token(self, /) -> str:
        """
        The value of the key while it is ours, as `attach` wants it: 32 hex digits. Who knows it can release the lock.

            >>> len(lease.token)
            32
        """
    @property
    def ttl(self, /) -> float:
        """
        The seconds that a renewal makes it last: the option's, or what `extend` was given last.

            >>> lease.ttl
            10.0
        """

@final
class Lock:
    """
    What to lock. No state of its own: share it between threads and tasks, and use it many times.

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
    def aacquire(self, *, wait: float | datetime.timedelta | None=...) -> _Acquiring:
        """
        `acquire` for asyncio, to be awaited or entered. A cancellation leaves no key behind.

        >>> async with lock.aacquire(wait=5) as lease:
        ...     lease.held
        True
        >>> lease = await lock.aacquire(wait=5)
        >>> await lease.arelease()
        """
    def atry_acquire(self) -> collections.abc.Coroutine[typing.Any, typing.Any, Lease | None]:
        """
        `try_acquire` for asyncio.

        >>> lease = await lock.atry_acquire()
        >>> await lease.arelease()
        """
    def aattach(self, token: str) -> collections.abc.Coroutine[typing.Any, typing.Any, Lease]:
        """
        `attach` for asyncio.

        >>> theirs = await lock.aattach(lease.token)
        """
    async def ainspect(self) -> Inspection:
        """
        `inspect` for asyncio.

        >>> (await lock.ainspect()).held
        False
        """
    async def __aenter__(self) -> Lease: ...
    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None) -> None: ...
    @typing.overload
    def __call__(self, function: staticmethod[_P, _R]) -> staticmethod[_P, _R]: ...
    @typing.overload
    def __call__(self, function: classmethod[_T, _P, _R]) -> classmethod[_T, _P, _R]: ...
    @typing.overload
    def __call__(self, function: collections.abc.Callable[_P, _R]) -> collections.abc.Callable[_P, _R]:
        """
        A function, or coroutine function, that holds the lock during each call.

        Braces in the lock's name stand for arguments of the call. If a function that is no `async def` returns an
        awaitable, the lock is held until that has ended. Raises TypeError for a class, a property and a generator,
        whose caller decides when it ends; InvalidOption for a name with other braces.
        """
    def __bool__(self, /) -> bool: ...
    def __copy__(self, /) -> Lock: ...
    def __deepcopy__(self, /, memo: "object") -> Lock: ...
    def __enter__(self, /) -> Lease: ...
    def __exit__(self, /, kind: "type[BaseException] | None", error: "BaseException | None", trace: "types.TracebackType | None") -> "None": ...
    def __new__(cls, /, *args: "typing.Never", **kwargs: "typing.Never") -> Lock: ...
    def __reduce__(self, /) -> "tuple[typing.Any, ...]": ...
    def __repr__(self, /) -> str: ...
    def _attach(self, /, line: "tuple[str, int | None]", token: "str") -> "collections.abc.Awaitable[Lease]":
        """
        Sends what `aattach` does, for the code at `line`.
        """
    def _begin(self, /, line: "tuple[str, int | None]", wait: "float | datetime.timedelta | types.EllipsisType | None" = ..., *args: "typing.Any", **kwargs: "typing.Any") -> _Acquire:
        """
        Begins an acquire, for the code at `line`.
        """
    def _begin_once(self, /, line: "tuple[str, int | None]") -> _Acquire:
        """
        The same of one round.
        """
    def _default(self, /) -> "tuple[typing.Any, ...]":
        """
        What a decorated call gives that cannot have the lock; empty: LockTimeout is raised.
        """
    def _enter(self, /, frame: "types.FrameType", lease: "Lease", body: "object") -> "None":
        """
        An `async with` under way: the frame that runs it, what it holds, and what its task is cancelled by.
        """
    def _given(self, /) -> "list[str] | collections.abc.Callable[..., str | list[str]]":
        """
        The names, or the function that gives them, as a decorator needs them.
        """
    def _hand_over(self, /, lease: "Lease") -> "None":
        """
        The with statement that holds this lease does not release it: from here on somebody else will.
        """
    def _inspect(self, /) -> "collections.abc.Awaitable[Inspection]":
        """
        Sends what `ainspect` does.
        """
    def _leave(self, /, frame: "types.FrameType") -> "tuple[Lease, typing.Any]":
        """
        The end of the `async with` in `frame`: its lease and its body.
        """
    def _named(self, /, names: "str | list[str]") -> "Lock":
        """
        The lock of these names, for calls of a decorated function.
        """
    def acquire(self, /, *, wait: "float | datetime.timedelta | None" = ..., timeout: "float | datetime.timedelta | None" = ...) -> Lease:
        """
        The lease, once it is ours: waits for `wait` seconds (None: for ever; not given: the lock's own).

        `timeout` is an alias of `wait`, in this method only. Giving both raises InvalidOption.

        Raises LockTimeout when somebody else held it all the time, QuorumUnavailable when too few nodes answered all the
        time, and ClientClosed. A KeyboardInterrupt leaves no key behind. Warns (RuntimeWarning) where an event loop runs.

            >>> with lock.acquire(wait=5) as lease:
            ...     lock.acquire(wait=0)
            Traceback (most recent call last):
            redlock.LockTimeout: lock:job: not acquired within ...
        """
    def attach(self, /, token: "str") -> Lease:
        """
        Continues the lease that another process holds under this token. Raises LockLost if it is not held.

        Both are one owner then, and each renews for itself. A release by either deletes the key: the other one is told of
        a loss. So whoever hands a lease over ends its own by `lease.detach()`; a process that ends without a release does
        no harm either. The fencing token does not come with the lease: hand it over with the token.

            >>> ours = lock.acquire()
            >>> theirs = lock.attach(ours.token)      # as a rule in another process
            >>> ours.detach()                        # the key stays: theirs has it
            True
            >>> theirs.release()
        """
    def inspect(self, /) -> Inspection:
        """
        Who holds it, by each node's word: a snapshot, which may be over when you read it.

        Raises QuorumUnavailable when fewer nodes than a quorum answered within `node_timeout`.

            >>> lock.inspect().held
            False
        """
    @property
    def key(self, /) -> str:
        """
        The Redis key; of several names all keys, with commas between.

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
        The name, without the client's prefix; of several names all, with commas between.

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
        The lease, or None if somebody else holds it or waits for it in this process: one round.

        Raises QuorumUnavailable when too few nodes answered.

            >>> with lock.try_acquire() as lease:
            ...     print(lock.try_acquire())
            None
        """
    @property
    def ttl(self, /) -> float:
        """
        The seconds that a lease lives without renewal.

            >>> client.lock("job").ttl
            10.0
        """
    @property
    def wait(self, /) -> float | None:
        """
        The seconds for which an acquire may wait; None: for ever.

            >>> client.lock("job", wait=5).wait
            5.0
        """

@final
class NodeInspection:
    """
    One node's word on one key.

        >>> with client.lock("job"):
        ...     node = client.lock("job").inspect().nodes[0]
        >>> node.url, node.key, node.state, node.error, len(node.token), node.remaining > 9
        ('memory://', 'lock:job', 'held', None, 8, True)
    """
    def __repr__(self, /) -> str: ...
    @property
    def error(self, /) -> str | None:
        """
        The fault's own text.
        """
    @property
    def key(self, /) -> str:
        """
        The Redis key.
        """
    @property
    def remaining(self, /) -> float | None:
        """
        The seconds left; None when free, at a fault, or without a known end.
        """
    @property
    def state(self, /) -> str:
        """
        `free`, `held`, `kept` (released, and stays for `min_hold`) or `fault`.
        """
    @property
    def token(self, /) -> str | None:
        """
        The first 8 digits of the owner's token.
        """
    @property
    def url(self, /) -> str:
        """
        The node's URL, without its password.
        """

@disjoint_base
class Redlock:
    """
    The client: the nodes of one lock space, and what its locks have in common.

    Nothing connects here. `with client:` and `async with client:` end in `shutdown(0)`.

    `nodes` is one URL or several, of independent servers: `redis://[user:password@]host[:port][/db]`, `rediss://`
    (TLS), `redis+sentinel://host,host/service`, `redis+cluster://host,host`, `unix:///path`, `memory://[name]`. Times are seconds or timedelta.

    - key_prefix: goes before every name; default `lock:`. An empty one shares keys with other libraries
    - node_timeout: how long to wait for one node's answer; default min(1, ttl / 5)
    - connect_timeout: how long an attempt to connect may take: name lookup, TCP, TLS and login; default 5
    - restart_guard: over several nodes, one younger than this takes no first vote, and no ttl may exceed it. The same
      on every client; 0: no guard; default 60
    - min_replicas: so many replicas of a node must have a grant or an extension before it counts (WAIT); default 0
    - fsync: whether a grant or an extension must be on disk before it counts (WAITAOF), which may take a second then;
      default False
    - scripts: whether locks are asked for by scripts (EVALSHA); default: but for releases where the server has DELIFEQ
      (Valkey 9), which costs it less. False needs DELIFEQ, or DELEX (Redis 8.4), one name per lock and no fencing
    - tls_ca: for `rediss://`, a PEM file of whom to trust, by its path or as its bytes; default: the system's trust
    - tls_cert: PEM of the client's certificate chain, where the server asks for one; with tls_key
    - tls_key: PEM of the certificate's private key
    - tls_server_name: the name that the server's certificate must carry; default the URL's host
    - tls_verify: whether the server must prove who it is; default True. With False whoever answers is believed, and
      hears the password: only for a network that nobody else is in
    - client_name: what the connections are called in the server's CLIENT LIST and log; default `redlock`
    - credentials: a function that gives a password, (user, password) or (user, password, lifetime in seconds); asked
      at each connect and, on the open connection, before the lifetime ends. It runs on a thread of its own

    Raises InvalidOption for a value that breaks a rule.

        >>> with redlock.Redlock(["memory://a", "memory://b", "memory://c"], key_prefix="app:") as client:
        ...     client.lock("job").key
        'app:job'
    """
    async def __aenter__(self) -> typing.Self: ...
    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None) -> None: ...
    def aattach(self, name: str | list[str] | tuple[str, ...], token: str, *, ttl: float | datetime.timedelta | None=None) -> collections.abc.Coroutine[typing.Any, typing.Any, Lease]:
        """
        `attach` for asyncio.

        >>> theirs = await client.aattach("job", lease.token)
        """
    async def aforce_release(self, name: str | list[str] | tuple[str, ...]) -> bool:
        """
        `force_release` for asyncio.

        >>> await client.aforce_release("job")
        True
        """
    async def arelease_all(self) -> int:
        """
        `release_all` for asyncio.

        >>> await client.arelease_all()
        1
        """
    async def ashutdown(self, timeout: float | datetime.timedelta=10) -> int:
        """
        `shutdown` for asyncio.

        >>> await client.ashutdown(timeout=0)
        1
        """
    @classmethod
    def from_client(cls, client: typing.Any | collections.abc.Sequence[typing.Any], *, service: str | None=None, key_prefix: str | None=None, node_timeout: float | datetime.timedelta | None=None, connect_timeout: float | datetime.timedelta | None=None, restart_guard: float | datetime.timedelta | None=None, min_replicas: int | None=None, fsync: bool | None=None, scripts: bool | None=None, tls_ca: str | os.PathLike[str] | bytes | None=None, tls_cert: str | os.PathLike[str] | bytes | None=None, tls_key: str | os.PathLike[str] | bytes | None=None, tls_server_name: str | None=None, tls_verify: bool | None=None, client_name: str | None=None, credentials: collections.abc.Callable[[], str | tuple[str | None, str] | tuple[str | None, str, float | datetime.timedelta | None]] | None=None) -> Redlock:
        """
        A client of the servers that redis-py's clients are for, with connections of its own.

        Takes a `redis.Redis`, `redis.asyncio.Redis`, `ConnectionPool`, `RedisCluster`, or a `Sentinel` with the name of
        its `service`; a list of them is a quorum of independent nodes. Address, database, user, password or credential
        provider, TLS, client name and time-outs are taken over; the options are those of `Redlock`, and win over what
        the client says. Nothing connects here, and the client is not used nor kept.

        Raises InvalidOption for what is no such client, and for a setting without a counterpart here that says whom
        to trust or where to go; warns once of others that have none.

            >>> import redis
            >>> redlock.Redlock.from_client(redis.Redis(port=6380, db=1), key_prefix="app:").nodes
            ['redis://localhost:6380/1']
        """
    def __copy__(self, /) -> Redlock: ...
    def __deepcopy__(self, /, memo: "object") -> Redlock: ...
    def __enter__(self, /) -> "typing.Self": ...
    def __exit__(self, /, kind: "type[BaseException] | None", error: "BaseException | None", trace: "types.TracebackType | None") -> "None": ...
    def __new__(cls, /, nodes: "str | list[str] | tuple[str, ...]" = ..., *, key_prefix: "str | None" = None, node_timeout: "float | datetime.timedelta | None" = None, connect_timeout: "float | datetime.timedelta | None" = None, restart_guard: "float | datetime.timedelta | None" = None, min_replicas: "int | None" = None, fsync: "bool | None" = None, scripts: "bool | None" = None, tls_ca: "str | os.PathLike[str] | bytes | None" = None, tls_cert: "str | os.PathLike[str] | bytes | None" = None, tls_key: "str | os.PathLike[str] | bytes | None" = None, tls_server_name: "str | None" = None, tls_verify: "bool | None" = None, client_name: "str | None" = None, credentials: "collections.abc.Callable[[], str | tuple[str | None, str] | tuple[str | None, str, float | datetime.timedelta | None]] | None" = None) -> Redlock: ...
    def __reduce__(self, /) -> "tuple[typing.Any, ...]": ...
    def __repr__(self, /) -> str: ...
    def _force_release(self, /, name: "str | list[str] | tuple[str, ...]") -> "collections.abc.Awaitable[bool]":
        """
        Sends what `aforce_release` does.
        """
    def _let_go(self, /) -> None:
        """
        Sends what `with` does at its end and does not wait.
        """
    def _release_all(self, /) -> "collections.abc.Awaitable[int]":
        """
        Sends what `arelease_all` does.
        """
    def _shutdown(self, /, timeout: "float | datetime.timedelta") -> "collections.abc.Awaitable[int]":
        """
        Begins what `ashutdown` does.
        """
    def attach(self, /, name: "str | list[str] | tuple[str, ...]", token: "str", *, ttl: "float | datetime.timedelta | None" = None) -> Lease:
        """
        Continues the lease that another process holds under this token, with this `ttl` (default 10 seconds) from now on:
        `lock(name).attach(token)`, which says more. Raises LockLost if it is not held.

            >>> theirs = client.attach("job", lease.token, ttl=5)
        """
    def close(self, /) -> None:
        """
        Ends it at once: waiting acquires fail with ClientClosed, its leases are lost, and their keys expire.

            >>> client.close()
            >>> client.lock("job").acquire()
            Traceback (most recent call last):
            redlock.ClientClosed: lock:job: the client is closed
        """
    def force_release(self, /, name: "str | list[str] | tuple[str, ...]") -> bool:
        """
        Deletes the lock whoever holds it; True if there was something to delete. Its holder is told of the loss.

        Raises QuorumUnavailable when too few nodes answered.

            >>> client.force_release("job")
            True
        """
    def leases(self, /) -> list[Lease]:
        """
        The leases that this client holds now.

            >>> [lease.key for lease in client.leases()]
            ['lock:job']
        """
    @typing.overload
    def lock(self, /, name: "str | list[str] | tuple[str, ...] | collections.abc.Callable[..., str | list[str]]", *, default: "_D", ttl: "float | datetime.timedelta | None" = None, wait: "float | datetime.timedelta | None" = None, renew: "bool | None" = None, max_hold: "float | datetime.timedelta | None" = None, min_hold: "float | datetime.timedelta | None" = None, node_timeout: "float | datetime.timedelta | None" = None, fencing: "bool | None" = None) -> _Skipping[_D]: ...
    @typing.overload
    def lock(self, /, name: "str | list[str] | tuple[str, ...] | collections.abc.Callable[..., str | list[str]]", *, ttl: "float | datetime.timedelta | None" = None, wait: "float | datetime.timedelta | None" = None, renew: "bool | None" = None, max_hold: "float | datetime.timedelta | None" = None, min_hold: "float | datetime.timedelta | None" = None, node_timeout: "float | datetime.timedelta | None" = None, fencing: "bool | None" = None) -> Lock:
        """
        Describes a lock on one name, or on several (1,000 at most) as one; nothing is sent. Times are seconds or timedelta.

        As a decorator's, the name may have braces around the decorated function's parameters, or be a function that
        gets those it asks for.

        - ttl: how long the lease lives without renewal; at least 0.1, default 10
        - wait: how long an acquire may wait for somebody else; 0: one round; default None: for ever
        - renew: whether to extend at a third of the ttl until released; default True
        - max_hold: upper bound on the whole hold, at which the lease is lost; default None: no bound
        - min_hold: how long the key stays after the acquire, even if the lease is released before; default 0
        - node_timeout: how long to wait for one node's answer; default the client's, else min(1, ttl / 5)
        - fencing: whether to ask for a fencing token, `lease.fencing_token`; default False
        - default: for decorators, the value that a call returns, without running, if it cannot get the lock within `wait`;
          not given: LockTimeout

        Raises InvalidOption for a value that breaks a rule.

            >>> lock = client.lock("job", ttl=10, wait=5)
            >>> with lock as lease:
            ...     lease.remaining > 9
            True
        """
    @property
    def nodes(self, /) -> list[str]:
        """
        The nodes' URLs, without user and password.

            >>> redlock.Redlock("redis://user:secret@127.0.0.1:6379/1").nodes
            ['redis://127.0.0.1:6379/1']
        """
    def release_all(self, /) -> int:
        """
        Gives back all that this client holds; says how many. Whoever still runs under one is told: LockLost, reason
        `revoked`. Raises the first error once all were tried.

            >>> client.release_all()
            1
        """
    def shutdown(self, /, timeout: "float | datetime.timedelta" = ...) -> "int":
        """
        Ends the client in order. Returns how many leases were still held at the timeout.

        From the call on, new acquires raise ClientClosed. Acquires that wait already have `timeout` to get their lease, and
        held leases to be released. At the timeout, acquires that still wait raise ClientClosed. Leases that are still held
        are released, and their holders are notified: LockLost, reason `revoked`. A node that cannot be reached and has
        pending deletes gets until `timeout` to return.

        Args:
            timeout: Seconds or a timedelta, default 10. With 0, acquires that wait and held leases end at once.

        Raises:
            QuorumUnavailable: Too few nodes confirmed the releases. Those keys expire when their TTL ends. The client is
                closed nevertheless.

            >>> client.shutdown(timeout=0)            # a lease is still held
            1
        """
    def stats(self, /) -> Stats:
        """
        What this client has done in this process so far, in numbers; a forked child's begin at 0.

            >>> with client.lock("job"):
            ...     client.stats().held
            1
        """

@final
class Stats:
    """
    What a client has done in this process so far; times are in seconds.

        >>> client.stats().granted, client.stats().lost["expired"]
        (0, 0)
    """
    def __repr__(self, /) -> str: ...
    @property
    def granted(self, /) -> int:
        """
        Acquires that gave a lease.
        """
    @property
    def held(self, /) -> int:
        """
        Leases that are held now.
        """
    @property
    def lost(self, /) -> dict[str, int]:
        """
        Leases that were lost, by reason; each reason is there. `forked` stays 0: a child counts none of its parent's.
        """
    @property
    def reconnects(self, /) -> int:
        """
        Connections that were opened anew, after one that ended.
        """
    @property
    def refused(self, /) -> int:
        """
        Acquires of one round that found somebody else: `try_acquire`.
        """
    @property
    def released(self, /) -> int:
        """
        Leases that their owner gave back.
        """
    @property
    def renewed(self, /) -> int:
        """
        Renewals that a quorum confirmed.
        """
    @property
    def time_held(self, /) -> float:
        """
        For how long all leases together were held that were released or lost.
        """
    @property
    def time_waited(self, /) -> float:
        """
        For how long all acquires together had to wait before the round that gave the lease, or until `wait` was over.
        """
    @property
    def timed_out(self, /) -> int:
        """
        Acquires whose `wait` was over.
        """
    @property
    def unavailable(self, /) -> int:
        """
        Acquires for which too few nodes answered.
        """
    @property
    def unrenewed(self, /) -> int:
        """
        Renewals that no quorum confirmed: each is tried again until the lease is over.
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
        Whether the reply stands, now that the task runs: if so, call `lease`. False: its time was over before, so `ask` again.
        """
    def ask(self, /) -> "asyncio.Future[None]":
        """
        An asyncio future that is done when there is a reply: then call `accept`.
        """
    def give_up(self, /) -> None:
        """
        Ends it, and releases what was granted meanwhile.
        """
    def lease(self, /) -> Lease | None:
        """
        The lease; None where one round was not enough.
        """

def _advance_memory(name: "str", seconds: "float | datetime.timedelta") -> "None":
    """
    Has so much time pass at once for the clients that have the node `memory://name` alone.
    """

def _client(identity: "str", nodes: "list[str]", options: "dict[str, typing.Any]") -> Redlock:
    """
    The client of a pickle: the same one for each pickle of one client, for as long as this process has it.
    """

def _conclude(problem: "redlock.errors.LockError", error: "BaseException | None") -> "None":
    """
    What a failed release does to the end of a with statement that `error` may be leaving: what the body raised stands.
    """

def _fail_memory(name: "str", down: "bool") -> "None":
    """
    Has the node `memory://name` fail every command, or answer again.
    """

def _lock(client: "Redlock | None", names: "typing.Any", options: "dict[str, typing.Any]", default: "tuple[typing.Any, ...]") -> Lock:
    """
    The lock of a pickle; without a client the default one's.
    """

def _log_by(start: "collections.abc.Callable[[], object]") -> "None":
    """
    How to begin to log, once there is somebody who may have something to say.
    """

def _log_from(topic: "str", level: "int") -> "None":
    """
    The least level that the logger of this topic wants now, as `logging` counts them.
    """

def _make_classes() -> "None":
    """
    Makes them, and imports those of errors.
    """

def _now() -> "float":
    """
    Seconds on a clock that no test library replaces.
    """

def _observe_by(observer: "collections.abc.Callable[[str, float, str, str | None], object] | None") -> "None":
    """
    Has `observer` told of each acquire from now on; None: nobody.
    """

def _set_trio(running: "collections.abc.Callable[[], object | None]") -> "None":
    """
    How to ask for the trio that runs here; never asked where nobody has imported trio.
    """

def _swap_default(other: "tuple[Redlock, bool] | None") -> "tuple[Redlock, bool] | None":
    """
    Replaces the default client and whether it is in use, and returns both as they were.
    """

def configure(nodes: "str | list[str] | tuple[str, ...]" = ..., *, replace: "bool | None" = None, key_prefix: "str | None" = None, node_timeout: "float | datetime.timedelta | None" = None, connect_timeout: "float | datetime.timedelta | None" = None, restart_guard: "float | datetime.timedelta | None" = None, min_replicas: "int | None" = None, fsync: "bool | None" = None, scripts: "bool | None" = None, tls_ca: "str | os.PathLike[str] | bytes | None" = None, tls_cert: "str | os.PathLike[str] | bytes | None" = None, tls_key: "str | os.PathLike[str] | bytes | None" = None, tls_server_name: "str | None" = None, tls_verify: "bool | None" = None, client_name: "str | None" = None, credentials: "collections.abc.Callable[[], str | tuple[str | None, str] | tuple[str | None, str, float | datetime.timedelta | None]] | None" = None) -> Redlock:
    """
    Chooses the default client, and returns it: without it, REDLOCK_NODES, else REDIS_URL, else
    redis://127.0.0.1:6379.

    The options are those of `Redlock`. Raises InvalidOption for a value that breaks a rule, and once the default
    client is in use, unless `replace` is true.

        >>> client = redlock.configure(["memory://"], replace=True)
        >>> redlock.lock("job").inspect().nodes[0].url
        'memory://'
    """

@typing.overload
def lock(name: "str | list[str] | tuple[str, ...] | collections.abc.Callable[..., str | list[str]]", *, default: "_D", ttl: "float | datetime.timedelta | None" = None, wait: "float | datetime.timedelta | None" = None, renew: "bool | None" = None, max_hold: "float | datetime.timedelta | None" = None, min_hold: "float | datetime.timedelta | None" = None, node_timeout: "float | datetime.timedelta | None" = None, fencing: "bool | None" = None) -> _Skipping[_D]: ...
@typing.overload
def lock(name: "str | list[str] | tuple[str, ...] | collections.abc.Callable[..., str | list[str]]", *, ttl: "float | datetime.timedelta | None" = None, wait: "float | datetime.timedelta | None" = None, renew: "bool | None" = None, max_hold: "float | datetime.timedelta | None" = None, min_hold: "float | datetime.timedelta | None" = None, node_timeout: "float | datetime.timedelta | None" = None, fencing: "bool | None" = None) -> Lock:
    """
    Describes a lock of the default client, which is looked up at each acquire: see `configure`.

    One name, or several as one; times are seconds or timedelta. As a decorator's, the name may have braces around the
    decorated function's parameters, or be a function that gets those it asks for.

    - ttl: how long the lease lives without renewal; at least 0.1, default 10
    - wait: how long an acquire may wait for somebody else; 0: one round; default None: for ever
    - renew: whether to extend at a third of the ttl until released; default True
    - max_hold: upper bound on the whole hold, at which the lease is lost; default None: no bound
    - min_hold: how long the key stays after the acquire, even if the lease is released before; default 0
    - node_timeout: how long to wait for one node's answer; default the client's, else min(1, ttl / 5)
    - fencing: whether to ask for a fencing token, `lease.fencing_token`; default False
    - default: for decorators, the value that a call returns, without running, if it cannot get the lock within `wait`;
      not given: LockTimeout

    Raises InvalidOption for a value that breaks a rule.

        >>> with redlock.lock("job", ttl=10) as lease:
        ...     lease.held
        True
    """
