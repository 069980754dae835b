"""asyncio: what awaits an acquire, and what an `async with` does at its begin, its end and a cancellation.

The classes of `redlock._native` get the methods of the classes here when the package is imported, so that calls go one
way: this calls native code, which waits, and never the other way round. asyncio is imported only where it is in use
already.
"""

import sys

from redlock import _native
from redlock._native import _conclude
from redlock.errors import LockError

# As `typing` has it, which takes longer to import than all the rest.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Coroutine
    from datetime import timedelta
    from types import FrameType, TracebackType
    from typing import Any, Never, TypeVar

    from redlock._native import Lease as _Lease
    from redlock._native import Lock as _Lock
    from redlock._native import Redlock as _Redlock
    from redlock._native import _Acquire
    from redlock.errors import LockLost

    _F = TypeVar("_F")
else:
    _Lease = _Lock = _Redlock = object


class Body:
    """An asyncio task inside an `async with`: asked to cancel itself, once, when the lease is lost."""

    __slots__ = ("cancelling", "done", "requested", "task")

    def __init__(self) -> None:
        import asyncio

        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("'async with' needs a running asyncio task")
        self.task: asyncio.Task[Any] = task
        self.cancelling = task.cancelling()
        self.requested = False
        self.done = False

    def lost(self, error: "LockLost") -> None:
        """Called by the loop, never by the task's own step: that would be cancelled at its next await."""
        if not self.done and not self.requested:
            self.requested = True
            self.task.cancel(str(error))

    def finish(self) -> bool:
        """Whether a CancelledError that leaves the body is ours, and not somebody else's at the same time."""
        self.done = True
        return self.requested and self.task.uncancel() <= self.cancelling


async def _granted(acquire: "_Acquire") -> "Any":
    while True:
        try:
            await acquire.ask()
        except BaseException:
            # Also what was granted before the task could see it.
            acquire.give_up()
            raise
        # Else its time was over before the loop came to us: ask again, within the same budget.
        if acquire.accept():
            return acquire.lease()


async def _enter(lock: "_Lock", frame: "FrameType") -> "_Lease":
    body = Body()
    lease: _Lease = await _granted(lock._acquire(frame))
    lease.on_lost(body.lost)
    lock._enter(frame, lease, body)
    return lease


async def _leave(lease: "_Lease", body: Body | None, error: BaseException | None) -> None:
    ours = body is not None and body.finish()
    if isinstance(error, GeneratorExit):
        # The coroutine is being closed: there may be no loop to wait in.
        lease._let_go()
        return
    import asyncio

    problem: LockError | None = lease._loss()
    try:
        # Sent before the first await; a cancellation here ends only the waiting for the confirmation.
        await lease.arelease()
    except LockError as failure:
        problem = failure
    if problem is None:
        return
    if ours and isinstance(error, asyncio.CancelledError):
        raise problem from error
    _conclude(problem, error)


class Lock(_Lock):  # type: ignore[misc]
    """What `redlock.Lock` has from here."""

    # No coroutine functions where the caller's frame counts: it is the one before ours.
    def aacquire(
        self,
        *args: "Never",
        wait: "float | timedelta | None" = ...,  # type: ignore[assignment]
        **kwargs: "Never",
    ) -> "Coroutine[Any, Any, _Lease]":
        """`acquire` for asyncio: begins when awaited; a cancellation leaves no key behind.

        >>> async with await lock.aacquire(wait=5) as lease:
        ...     lease.held
        True
        """
        return _granted(self._acquire(sys._getframe(1), wait, *args, **kwargs))

    def atry_acquire(self) -> "Coroutine[Any, Any, _Lease | None]":
        """`try_acquire` for asyncio: begins when awaited.

        >>> lease = await lock.atry_acquire()
        >>> await lease.arelease()
        """
        return _granted(self._try_acquire(sys._getframe(1)))

    def __aenter__(self) -> "Coroutine[Any, Any, _Lease]":
        return _enter(self, sys._getframe(1))

    def __aexit__(
        self,
        kind: "type[BaseException] | None",
        error: BaseException | None,
        trace: "TracebackType | None",
    ) -> "Coroutine[Any, Any, None]":
        return _leave(*self._leave(sys._getframe(1)), error)

    def __call__(self, function: "_F") -> "_F":
        """A function, or coroutine function, that holds the lock during each call.

        If a function that is no `async def` returns an awaitable, the lock is held until that has ended. Raises
        TypeError for a generator, whose caller decides when it ends.
        """
        from redlock._decorator import decorate

        decorated: _F = decorate(self, function)
        return decorated


class Lease(_Lease):  # type: ignore[misc]
    """What `redlock.Lease` has from here."""

    async def __aenter__(self) -> "_Lease":
        if self._body is not None:
            raise RuntimeError(f"{self!r} is entered already")
        body = Body()
        self._set_body(body)
        self.on_lost(body.lost)
        return self

    def __aexit__(
        self,
        kind: "type[BaseException] | None",
        error: BaseException | None,
        trace: "TracebackType | None",
    ) -> "Coroutine[Any, Any, None]":
        body = self._body
        self._set_body(None)
        assert isinstance(body, Body)
        return _leave(self, body, error)


class Redlock(_Redlock):  # type: ignore[misc]
    """What `redlock.Redlock` has from here."""

    async def __aenter__(self) -> "_Redlock":
        return self

    async def __aexit__(
        self,
        kind: "type[BaseException] | None",
        error: BaseException | None,
        trace: "TracebackType | None",
    ) -> None:
        if isinstance(error, GeneratorExit):
            # The coroutine is being closed: there may be no loop to wait in.
            self._let_go()
            return
        try:
            await self.ashutdown(0)
        except LockError as problem:
            _conclude(problem, error)


for _ours, _theirs in (
    (Lock, _native.Lock),
    (Lease, _native.Lease),
    (Redlock, _native.Redlock),
):
    for _name, _method in vars(_ours).items():
        if callable(_method):
            setattr(_theirs, _name, _method)
