"""With statements, async with statements and decorators: frames, coroutines and cancellation.

Rust calls these functions from the methods of `Lock` and `Lease`, and has no frame of its own: the frame before
ours runs the with statement. asyncio is imported only where it is in use already.
"""

import sys
from time import monotonic

from redlock.errors import LockError, LockLost, QuorumUnavailable

# As `typing` has it, which takes longer to import than all the rest.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Coroutine
    from types import FrameType
    from typing import Any

    from redlock._native import Lease, Lock, Redlock


class Entry:
    """One with statement under way: the frame that runs it, and what it holds."""

    __slots__ = ("body", "frame", "lease", "stacked")

    def __init__(self, frame: "FrameType") -> None:
        self.frame = frame
        #: Entered by an ExitStack: it will be left from another frame than this one.
        self.stacked = frame.f_globals.get("__name__") == "contextlib"
        self.lease: Lease | None = None
        self.body: Body | None = None


def enter(lock: "Lock") -> "Lease":
    """`with lock`."""
    entry = Entry(sys._getframe(1))
    try:
        lock._acquire_for(entry)
    except BaseException:
        # A signal handler raised after the grant.
        if entry.lease is not None:
            lock._entries.remove(entry)
            entry.lease._let_go()
        raise
    assert entry.lease is not None
    return entry.lease


def conclude(problem: LockError, error: BaseException | None) -> None:
    """What a release that failed does to the end of a with statement: what the body raised stands."""
    if isinstance(problem, QuorumUnavailable):
        import logging

        # The body has done its work, and the keys expire by themselves.
        logging.getLogger("redlock").warning("not released, the key will expire: %s", problem)
    elif error is None:
        raise problem
    elif not isinstance(error, LockLost):
        error.add_note(f"redlock: {problem}")


def take(lock: "Lock", frame: "FrameType") -> Entry:
    """The entry that this frame made, and else the newest that this thread or task made, or the only one."""
    entries: list[Entry] = lock._entries
    newest = entries[::-1]
    found = next((entry for entry in newest if entry.frame is frame), None)
    if found is None:
        mine = [entry for entry in newest if entry.lease is not None and entry.lease._mine()]
        stacked = [entry for entry in mine if entry.stacked]
        only = newest if len(newest) == 1 else []
        found = next(iter(stacked + mine + only), None)
    if found is None:
        raise RuntimeError(
            f"{lock!r} is left by a thread or task that has not entered it, and {len(newest)} others have: "
            "nothing is released; keep the lease of lock.acquire() instead"
        )
    entries.remove(found)
    return found


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

    def lost(self, error: LockLost) -> None:
        """Called by the loop, never by the task's own step: that would be cancelled at its next await."""
        if not self.done and not self.requested:
            self.requested = True
            self.task.cancel(str(error))

    def finish(self) -> bool:
        """Whether a CancelledError that leaves the body is ours, and not somebody else's at the same time."""
        self.done = True
        return self.requested and self.task.uncancel() <= self.cancelling


def acquire(lock: "Lock", frame: "FrameType", wait: float | None) -> "Coroutine[Any, Any, Lease]":
    """`await lock.aacquire()`, for the frame that asked."""
    return _granted(lock, frame, wait)


async def _granted(lock: "Lock", frame: "FrameType", wait: float | None) -> "Lease":
    begun, left = monotonic(), wait
    while True:
        future = lock._begin(frame, left)
        try:
            lease = await future
        except BaseException:
            _give_up(lock, future)
            raise
        if lease.held:
            return lease
        # Its time was over before the loop came to us: ask again, within the same budget.
        left = lock._left(wait, monotonic() - begun)


async def try_acquire(lock: "Lock", frame: "FrameType") -> "Lease | None":
    """`await lock.atry_acquire()`."""
    while True:
        future = lock._begin_try(frame)
        try:
            lease = await future
        except BaseException:
            _give_up(lock, future)
            raise
        if lease is None or lease.held:
            return lease


def _give_up(lock: "Lock", future: "asyncio.Future[Any]") -> None:
    if not future.done() or future.cancelled():
        lock._cancel(future)
    elif future.exception() is None and (lease := future.result()) is not None:
        # Granted, but the task was cancelled before it could see that.
        lease._let_go()


def aenter(lock: "Lock") -> "Coroutine[Any, Any, Lease]":
    """`async with lock`."""
    return _aenter(lock, Entry(sys._getframe(1)))


async def _aenter(lock: "Lock", entry: Entry) -> "Lease":
    entry.body = Body()
    entry.lease = await _granted(lock, entry.frame, None)
    entry.lease.on_lost(entry.body.lost)
    lock._entries.append(entry)
    return entry.lease


def aexit(lock: "Lock", error: BaseException | None) -> "Coroutine[Any, Any, None]":
    """The end of `async with lock`."""
    entry = take(lock, sys._getframe(1))
    assert entry.lease is not None
    return _aleave(entry.lease, entry.body, error)


async def enter_lease(lease: "Lease") -> "Lease":
    """`async with lease`."""
    if lease._body is not None:
        raise RuntimeError(f"{lease!r} is entered already")
    body = Body()
    lease._set_body(body)
    lease.on_lost(body.lost)
    return lease


def leave_lease(lease: "Lease", error: BaseException | None) -> "Coroutine[Any, Any, None]":
    """The end of `async with lease`."""
    body = lease._body
    lease._set_body(None)
    assert isinstance(body, Body)
    return _aleave(lease, body, error)


async def _aleave(lease: "Lease", body: Body | None, error: BaseException | None) -> None:
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
    conclude(problem, error)


async def enter_client(client: "Redlock") -> "Redlock":
    """`async with client`."""
    return client


async def leave_client(client: "Redlock", error: BaseException | None) -> None:
    """The end of `async with client`."""
    if isinstance(error, GeneratorExit):
        # The coroutine is being closed: there may be no loop to wait in.
        client._let_go()
        return
    try:
        await client.ashutdown(0)
    except LockError as problem:
        conclude(problem, error)


def warn(category: type[Warning], text: str) -> None:
    """Warns at the first frame outside of this package."""
    import warnings

    level, frame = 1, sys._getframe(0)
    ours = (__name__, "redlock._decorator")
    while frame.f_back is not None and frame.f_globals.get("__name__") in ours:
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level)
