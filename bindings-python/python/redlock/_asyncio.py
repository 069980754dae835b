"""Locks and leases under asyncio and trio: the methods of `AsyncLock` and `AsyncLease`, `async with` and `@lock`.

The classes of `redlock._native` get the methods of the classes below when the package is imported. Calls therefore have
one direction: this module calls native code, which returns futures. asyncio and trio are imported only where the
program uses them.
"""

import sys

from redlock import _native
from redlock._body import Body, EnteredFor, leave
from redlock._coroutine_function import coroutine_function

# Like `typing.TYPE_CHECKING`. Importing `typing` takes longer than all the rest.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from datetime import timedelta
    from types import CodeType, FrameType, TracebackType
    from typing import Any, ParamSpec, TypeVar, overload

    from redlock._native import AsyncLease as _AsyncLease
    from redlock._native import AsyncLock as _AsyncLock
    from redlock._native import Inspection, _Acquire
    from redlock._native import Lock as _Lock
    from redlock._trio import Body as TrioBody
    from redlock._trio import Loop

    _P = ParamSpec("_P")
    _R = TypeVar("_R")
    _T = TypeVar("_T")
else:
    _AsyncLease = _AsyncLock = _Lock = object


def _trio() -> "Loop | None":
    """Returns the trio run of the calling task, if there is one. Called only if a module `trio` was imported."""
    try:
        from redlock import _trio as trio
    except (AttributeError, ImportError):
        # Another module of this name.
        return None
    # Ctrl-C must not interrupt these functions between a grant and its return to the caller.
    trio.protect(*_PROTECTED)
    return trio.running()


def _body() -> "Body | TrioBody":
    """Returns the body of an `async with` in the calling task."""
    if "trio" in sys.modules and _trio() is not None:
        from redlock._trio import Body as TrioBody

        return TrioBody()
    return Body()


async def _acquire(begin: "Callable[..., _Acquire]", *args: "Any", **kwargs: "Any") -> "Any":
    """Begins an acquire with these arguments and awaits its result."""
    acquire = begin(*args, **kwargs)
    while True:
        try:
            await acquire.start()
            # Otherwise the grant expired before the loop read it. Try again within the same `wait`.
            if acquire.accept():
                return acquire.lease()
        except BaseException:
            # Also releases a grant that the task has not received.
            acquire.give_up()
            raise


async def _enter(lock: "_Lock", site: "tuple[CodeType, int]", frame: "FrameType") -> "_AsyncLease":
    """Acquires the lock and begins the body of an `async with`. If this fails, the lease is released."""
    body = _body()
    # Registered first, because a signal handler may raise before an AsyncExitStack has registered the exit.
    interrupted = None
    if frame.f_code.co_name == "enter_async_context":
        interrupted = lock._register(frame)
        caller = frame.f_back
        if interrupted is not None and caller is not None:
            site = (caller.f_code, caller.f_lasti)
    lease: _AsyncLease = await _acquire(lock._start_acquire, site)
    # No call may be between these lines: a signal handler could raise at its start, and nothing would release the
    # lease.
    try:
        lock._enter(frame, lease, body, interrupted)
        lease._lease._on_lost(body.lost)
        body.enter()
    except BaseException:
        body.discard(lease._lease)
        lock._forget(lease._lease)
        raise
    return lease


async def _try_acquire(lock: "_Lock", site: "tuple[CodeType, int]") -> "_AsyncLease | None":
    return await _acquire(lock._begin_once, site)  # type: ignore[no-any-return]


async def _attach(lock: "_Lock", site: "tuple[CodeType, int]", token: str) -> "_AsyncLease":
    return await lock._attach(site, token)


# Python shows these names, for example in the warning about a coroutine that was never awaited.
_enter.__qualname__ = "Lock.__aenter__"
_acquire.__qualname__ = "AsyncLock.acquire"
_try_acquire.__qualname__ = "AsyncLock.try_acquire"
_attach.__qualname__ = "AsyncLock.attach"


class Lock(_Lock):  # type: ignore[misc]
    """The Python methods of `redlock.Lock`."""

    @coroutine_function
    def __aenter__(self) -> "Coroutine[Any, Any, _AsyncLease]":
        # Read at the call, because the coroutine may run as a task.
        frame = sys._getframe(1)
        return _enter(self, (frame.f_code, frame.f_lasti), frame)

    async def __aexit__(
        self,
        kind: "type[BaseException] | None",
        error: BaseException | None,
        trace: "TracebackType | None",
    ) -> None:
        lease, body = self._leave(sys._getframe(1))
        await leave(lease, body, error)

    if TYPE_CHECKING:

        @overload
        def __call__(self, function: "staticmethod[_P, _R]") -> "staticmethod[_P, _R]": ...
        @overload
        def __call__(self, function: "classmethod[_T, _P, _R]") -> "classmethod[_T, _P, _R]": ...
        @overload
        def __call__(self, function: "Callable[_P, _R]") -> "Callable[_P, _R]": ...

    def __call__(self, function: "Any") -> "Any":
        """Decorates a function or coroutine function, which then holds the lock during each call.

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
        from redlock._decorator import decorate

        return decorate(self, function, _enter)


class AsyncLock(_AsyncLock):  # type: ignore[misc]
    """The Python methods of `redlock.AsyncLock`."""

    @coroutine_function
    def acquire(
        self,
        *args: "Any",
        wait: "float | timedelta | None" = None,
        timeout: "float | timedelta | None" = None,
        **kwargs: "Any",
    ) -> "Coroutine[Any, Any, _AsyncLease]":
        """Acquires the lock, waiting if another client holds it. A cancellation leaves no key behind.

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
        frame = sys._getframe(1)
        site = (frame.f_code, frame.f_lasti)
        return _acquire(self._lock._start_acquire, site, wait, timeout, *args, **kwargs)

    @coroutine_function
    def try_acquire(self) -> "Coroutine[Any, Any, _AsyncLease | None]":
        """Tries to acquire the lock once.

        Returns:
            The lease, or None if another client holds the lock, or another caller in this process waits for it.

        Raises:
            QuorumUnavailable: Too few nodes replied.
            ClientClosed: The client was closed.

        Example:
            >>> lease = await lock.as_async().try_acquire()
            >>> await lease.release()
        """
        frame = sys._getframe(1)
        return _try_acquire(self._lock, (frame.f_code, frame.f_lasti))

    @coroutine_function
    def attach(self, token: str) -> "Coroutine[Any, Any, _AsyncLease]":
        """Continues the lease that another process holds under this token.

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
        frame = sys._getframe(1)
        return _attach(self._lock, (frame.f_code, frame.f_lasti), token)

    async def inspect(self) -> "Inspection":
        """Asks the nodes for the holder of the lock.

        Returns:
            A snapshot, which may be outdated when you read it.

        Raises:
            QuorumUnavailable: Fewer nodes than a quorum replied within `node_timeout`.
            ClientClosed: The client was closed.

        Example:
            >>> (await lock.as_async().inspect()).held
            False
        """
        return await self._lock._inspect()

    @coroutine_function
    def __aenter__(self) -> "Coroutine[Any, Any, _AsyncLease]":
        # Read at the call, because the coroutine may run as a task.
        frame = sys._getframe(1)
        return _enter(self._lock, (frame.f_code, frame.f_lasti), frame)

    async def __aexit__(
        self,
        kind: "type[BaseException] | None",
        error: BaseException | None,
        trace: "TracebackType | None",
    ) -> None:
        lease, body = self._lock._leave(sys._getframe(1))
        await leave(lease, body, error)

    if TYPE_CHECKING:

        @overload
        def __call__(
            self, function: "staticmethod[_P, Coroutine[Any, Any, _R]]"
        ) -> "staticmethod[_P, Coroutine[Any, Any, _R]]": ...
        @overload
        def __call__(
            self, function: "classmethod[_T, _P, Coroutine[Any, Any, _R]]"
        ) -> "classmethod[_T, _P, Coroutine[Any, Any, _R]]": ...
        @overload
        def __call__(
            self, function: "Callable[_P, Coroutine[Any, Any, _R]]"
        ) -> "Callable[_P, Coroutine[Any, Any, _R]]": ...

    def __call__(self, function: "Any") -> "Any":
        """Decorates a coroutine function, which then holds the lock during each call.

        Braces in the lock's name contain parameters of the function.

        Args:
            function: The `async def` to decorate.

        Returns:
            A coroutine function with the same parameters.

        Raises:
            TypeError: `function` is not a coroutine function.
            InvalidOption: The lock's name contains braces that match no parameter.
        """
        from redlock._decorator import decorate

        return decorate(self._lock, function, _enter, only_async=True)


class AsyncLease(_AsyncLease):  # type: ignore[misc]
    """The Python methods of `redlock.AsyncLease`."""

    async def extend(self, ttl: "float | timedelta | None" = None) -> None:
        """Makes the lease last at least `ttl` from now, but not beyond `max_hold`. Never shortens it.

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
        await self._lease._extend(ttl)

    async def release(self) -> None:
        """Releases the lock. A second call does nothing.

        A cancellation only ends the wait for the confirmation, because the release has been sent.

        Raises:
            LockLost: The lease was lost.
            QuorumUnavailable: Too few nodes confirmed within `node_timeout`. The keys expire when their TTL ends.

        Example:
            >>> async with lock as lease:
            ...     await lease.release()
        """
        await self._lease._release()

    async def __aenter__(self) -> "_AsyncLease":
        body = _body()
        lease = self._lease
        try:
            lease._enter(body)
            lease._on_lost(body.lost)
            body.enter()
        except BaseException:
            # Otherwise `_enter` raised it, and the lease is not ours to release.
            if lease._body is body:
                body.discard(lease)
                lease._leave()
            raise
        return self

    async def __aexit__(
        self,
        kind: "type[BaseException] | None",
        error: BaseException | None,
        trace: "TracebackType | None",
    ) -> None:
        lease = self._lease
        await leave(lease, lease._leave(), error)


_PROTECTED = (
    _acquire,
    _enter,
    leave,
    EnteredFor.__aenter__,
    EnteredFor.__aexit__,
    Lock.__aenter__,
    Lock.__aexit__,
    AsyncLock.__aenter__,
    AsyncLock.__aexit__,
    AsyncLease.__aenter__,
    AsyncLease.__aexit__,
)

for _class in (Lock, AsyncLock, AsyncLease):
    for _name, _method in vars(_class).items():
        if callable(_method):
            # The stubs have the types. These names exist for type checkers only.
            _method.__annotations__ = {}
            setattr(getattr(_native, _class.__name__), _name, _method)

_native._set_trio(_trio)
_native._make_classes()
