"""The body of an `async with`: cancels its task when the lease is lost, and recognises that cancellation."""

import sys

from redlock._coroutine_function import coroutine_function
from redlock.errors import LockError

# Like `typing.TYPE_CHECKING`. Importing `typing` takes longer than all the rest.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from types import CodeType, TracebackType
    from typing import Any

    from redlock._native import AsyncLease as _AsyncLease
    from redlock._native import Lease as _Lease
    from redlock._native import Lock as _Lock
    from redlock._trio import Body as TrioBody
    from redlock.errors import LockLost


class EnteredFor:
    """A lock that an `async with` of this package enters by a function, for the code at `site`."""

    __slots__ = ("enter", "lock", "site")

    def __init__(
        self, enter: "Callable[..., Any]", lock: "_Lock", site: "tuple[CodeType, int]"
    ) -> None:
        self.enter = enter
        self.lock = lock
        self.site = site

    @coroutine_function
    def __aenter__(self) -> "Coroutine[Any, Any, _AsyncLease]":
        return self.enter(self.lock, self.site, sys._getframe(1))  # type: ignore[no-any-return]

    @coroutine_function
    def __aexit__(
        self,
        kind: "type[BaseException] | None",
        error: "BaseException | None",
        trace: "TracebackType | None",
    ) -> "Coroutine[Any, Any, None]":
        return self.lock.__aexit__(kind, error, trace)


class Body:
    """An asyncio task inside an `async with`, which is cancelled once when the lease is lost."""

    __slots__ = ("cancellation", "cancelling", "done", "requested", "task")

    def __init__(self) -> None:
        import asyncio
        import weakref

        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("'async with' needs a running asyncio task")
        # Weak, because the lock keeps this object. A task whose loop was closed would never be collected.
        self.task: weakref.ref[asyncio.Task[Any]] = weakref.ref(task)
        # Not imported when it is needed, because the interpreter may then be ending.
        self.cancellation = asyncio.CancelledError
        self.cancelling = task.cancelling()
        self.requested = False
        self.done = False

    def enter(self) -> None:
        """Does nothing, because the task exists already. trio needs this step."""

    def discard(self, lease: "_Lease") -> None:
        """Releases the lease of a body that does not begin, and ignores a later loss."""
        self.done = True
        lease._let_go()

    def lost(self, error: "LockLost") -> None:
        """Cancels the task. Only the event loop calls this, between the steps of its tasks."""
        task = self.task()
        if task is not None and not self.done and not self.requested:
            self.requested = True
            task.cancel(str(error))

    def finish(self, error: BaseException | None) -> "tuple[bool, BaseException | None]":
        """Returns whether only our own cancellation ends the body, and the exception that ends it."""
        self.done = True
        task = self.task()
        ours = self.requested and task is not None and task.uncancel() <= self.cancelling
        return ours and isinstance(error, self.cancellation), error

    def ensure_not_cancelled(self) -> None:
        """Raises the CancelledError of a caller that cancelled this task since this object was made."""
        task = self.task()
        if task is not None and task.cancelling() > self.cancelling:
            raise self.cancellation


async def leave(
    lease: "_Lease", body: "Body | TrioBody | None", error: BaseException | None
) -> None:
    """Releases the lease at the end of an `async with`.

    Args:
        lease: The lease of the block.
        body: The body of the block, if it was entered.
        error: The exception that leaves the block.

    Raises:
        LockLost: The lease was lost and the block raised nothing else.
    """
    if isinstance(error, GeneratorExit):
        # The coroutine is being closed. There may be no loop to wait in. Released first, because the interpreter may be
        # ending, and then much else fails.
        lease._let_go()
        if body is not None:
            body.finish(error)
        return
    ours, left = (False, error) if body is None else body.finish(error)
    problem: LockError | None = None
    try:
        # The release is sent before the first await. A cancellation here only ends the wait for its confirmation.
        await lease._release(error is None)
    except LockError as failure:
        problem = failure
    if problem is not None:
        if ours:
            raise problem from error
        lease._conclude(problem, left)
    if left is not None and left is not error:
        # The rest of an exception group, without our cancellation.
        raise left
