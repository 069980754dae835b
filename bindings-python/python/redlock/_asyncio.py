"""asyncio and trio: what awaits an acquire, and what an `async with` does at its begin, its end and a cancellation.

The classes of `redlock._native` get the methods of the classes here when the package is imported, so that calls go one
way: this calls native code, which waits, and never the other way round. asyncio and trio are imported only where they
are in use already.
"""

import sys

from redlock import _native
from redlock._body import Body
from redlock._coroutine_function import coroutine_function, line_of
from redlock._native import _conclude
from redlock.errors import LockError

# As `typing` has it, which takes longer to import than all the rest.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator
    from datetime import timedelta
    from types import TracebackType
    from typing import Any, ParamSpec, TypeVar, overload

    from redlock._native import Inspection, _Acquire
    from redlock._native import Lease as _Lease
    from redlock._native import Lock as _Lock
    from redlock._trio import Body as TrioBody
    from redlock._trio import Loop

    _P = ParamSpec("_P")
    _R = TypeVar("_R")
    _T = TypeVar("_T")
else:
    _Lease = _Lock = object


def _trio() -> "Loop | None":
    """The trio that runs here. Asked only where it is imported, of which nobody has to be sure that it is trio."""
    try:
        from redlock import _trio as trio
    except (AttributeError, ImportError):
        return None
    # A Ctrl-C comes before a lease is handed out, or after.
    trio.protect(*_PROTECTED)
    return trio.running()


def _body() -> "Body | TrioBody":
    """That of the task which calls."""
    if "trio" in sys.modules and _trio() is not None:
        from redlock._trio import Body as TrioBody

        return TrioBody()
    return Body()


def _begin(body: "Body | TrioBody", lease: "_Lease") -> None:
    body.begin()
    lease._on_lost(body.lost)


async def _leave(
    lease: "_Lease", body: "Body | TrioBody | None", error: BaseException | None
) -> None:
    ours, left = (False, error) if body is None else body.finish(error)
    if isinstance(error, GeneratorExit):
        # The coroutine is being closed: there may be no loop to wait in.
        lease._let_go()
        return
    problem: LockError | None = lease._loss()
    try:
        # Sent before the first await; a cancellation here ends only the waiting for the confirmation.
        await lease._release()
    except LockError as failure:
        problem = failure
    if problem is not None:
        if ours:
            raise problem from error
        _conclude(problem, left)
    if left is not None and left is not error:
        # What a cancellation of ours was raised with.
        raise left


async def _aacquire(begin: "Callable[..., _Acquire]", *args: "Any", **kwargs: "Any") -> "Any":
    acquire = begin(*args, **kwargs)
    while True:
        asked = acquire.ask()
        try:
            await asked
        except BaseException:
            # Also releases a grant that the task has not seen.
            acquire.give_up()
            raise
        # Otherwise the grant expired before the loop read it. Ask again, within the same `wait`.
        if acquire.accept():
            return acquire.lease()


async def _atry_acquire(lock: "_Lock", line: "tuple[str, int | None]") -> "_Lease | None":
    return await _aacquire(lock._begin_once, line)  # type: ignore[no-any-return]


async def _aattach(lock: "_Lock", line: "tuple[str, int | None]", token: str) -> "_Lease":
    return await lock._attach(line, token)


# As Python shows them: in the warning about a coroutine that was never awaited, for example.
_aacquire.__qualname__ = "Lock.aacquire"
_atry_acquire.__qualname__ = "Lock.atry_acquire"
_aattach.__qualname__ = "Lock.aattach"


class _Acquiring:
    """The coroutine that `lock.aacquire()` returns, which `async with` can enter as well."""

    __slots__ = ("__weakref__", "_coroutine", "_lease")

    def __init__(self, coroutine: "Coroutine[Any, Any, _Lease]") -> None:
        self._coroutine: Any = coroutine

    def __await__(self) -> "Generator[Any, None, _Lease]":
        # As `await` checks of a coroutine itself.
        if self._coroutine.cr_await is not None:
            raise RuntimeError("coroutine is being awaited already")
        return self._coroutine.__await__()  # type: ignore[no-any-return]

    async def __aenter__(self) -> "_Lease":
        body = _body()
        lease: _Lease = await self._coroutine
        lease._enter(body)
        _begin(body, lease)
        self._lease = lease
        return lease

    async def __aexit__(
        self,
        kind: "type[BaseException] | None",
        error: BaseException | None,
        trace: "TracebackType | None",
    ) -> None:
        lease = self._lease
        del self._lease
        await lease.__aexit__(kind, error, trace)

    # A task drives a coroutine with these.
    def send(self, value: "Any") -> "Any":
        return self._coroutine.send(value)

    def throw(self, *error: "Any") -> "Any":
        return self._coroutine.throw(*error)

    def close(self) -> None:
        self._coroutine.close()


class Lock(_Lock):  # type: ignore[misc]
    """What `redlock.Lock` has from here."""

    @coroutine_function
    def aacquire(  # type: ignore[override]
        self,
        *args: "Any",
        wait: "float | timedelta | None" = ...,  # type: ignore[assignment]
        **kwargs: "Any",
    ) -> "_Acquiring":
        """`acquire` for asyncio, to be awaited or entered. A cancellation leaves no key behind.

        >>> async with lock.aacquire(wait=5) as lease:
        ...     lease.held
        True
        >>> lease = await lock.aacquire(wait=5)
        >>> await lease.arelease()
        """
        # `line_of`, without its call.
        frame = sys._getframe(1)
        line = (frame.f_code.co_filename, frame.f_lineno)
        return _Acquiring(_aacquire(self._begin, line, wait, *args, **kwargs))

    @coroutine_function
    def atry_acquire(self) -> "Coroutine[Any, Any, _Lease | None]":
        """`try_acquire` for asyncio.

        >>> lease = await lock.atry_acquire()
        >>> await lease.arelease()
        """
        return _atry_acquire(self, line_of(sys._getframe(1)))

    @coroutine_function
    def aattach(self, token: str) -> "Coroutine[Any, Any, _Lease]":
        """`attach` for asyncio.

        >>> theirs = await lock.aattach(lease.token)
        """
        return _aattach(self, line_of(sys._getframe(1)), token)

    async def ainspect(self) -> "Inspection":
        """`inspect` for asyncio.

        >>> (await lock.ainspect()).held
        False
        """
        return await self._inspect()

    async def __aenter__(self) -> "_Lease":
        frame = sys._getframe(1)
        body = _body()
        lease: _Lease = await _aacquire(self._begin, line_of(frame))
        _begin(body, lease)
        self._enter(frame, lease, body)
        return lease

    async def __aexit__(
        self,
        kind: "type[BaseException] | None",
        error: BaseException | None,
        trace: "TracebackType | None",
    ) -> None:
        lease, body = self._leave(sys._getframe(1))
        await _leave(lease, body, error)

    if TYPE_CHECKING:

        @overload
        def __call__(self, function: "staticmethod[_P, _R]") -> "staticmethod[_P, _R]": ...
        @overload
        def __call__(self, function: "classmethod[_T, _P, _R]") -> "classmethod[_T, _P, _R]": ...
        @overload
        def __call__(self, function: "Callable[_P, _R]") -> "Callable[_P, _R]": ...

    def __call__(self, function: "Any") -> "Any":
        """A function, or coroutine function, that holds the lock during each call.

        Braces in the lock's name stand for arguments of the call. If a function that is no `async def` returns an
        awaitable, the lock is held until that has ended. Raises TypeError for a class, a property and a generator,
        whose caller decides when it ends; InvalidOption for a name with other braces.
        """
        from redlock._decorator import decorate

        return decorate(self, function)


class Lease(_Lease):  # type: ignore[misc]
    """What `redlock.Lease` has from here."""

    async def aextend(self, ttl: "float | timedelta | None" = None) -> None:
        """`extend` for asyncio.

        >>> await lease.aextend(ttl=30)
        """
        await self._extend(ttl)

    async def arelease(self) -> None:
        """`release` for asyncio. A cancellation ends only the wait for the confirmation: the release has been sent.

        >>> await lease.arelease()
        """
        await self._release()

    async def __aenter__(self) -> "_Lease":
        body = _body()
        self._enter(body)
        _begin(body, self)
        return self

    async def __aexit__(
        self,
        kind: "type[BaseException] | None",
        error: BaseException | None,
        trace: "TracebackType | None",
    ) -> None:
        await _leave(self, self._leave(), error)


_PROTECTED = (
    _aacquire,
    _leave,
    _Acquiring.__aenter__,
    _Acquiring.__aexit__,
    Lock.__aenter__,
    Lock.__aexit__,
    Lease.__aenter__,
    Lease.__aexit__,
)

for _ours, _theirs in ((Lock, _native.Lock), (Lease, _native.Lease)):
    for _name, _method in vars(_ours).items():
        if callable(_method):
            # Like the native methods: the types are in the stubs, and these names exist for type checkers alone.
            _method.__annotations__ = {}
            setattr(_theirs, _name, _method)

_native._set_trio(_trio)
_native._make_classes()
