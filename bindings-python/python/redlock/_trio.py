"""Presents the current trio run as an event loop, and implements the body of an `async with` under trio.

Imported only when a program runs under trio. A callback that trio calls must not raise, because that would end its run.
"""

from contextlib import suppress
from typing import TYPE_CHECKING

import trio
from trio import lowlevel

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator
    from contextvars import Context
    from typing import Any

    from redlock._native import Lease
    from redlock.errors import LockLost


def running() -> "Loop | None":
    """Returns the trio run of the calling task, or None outside of a run."""
    try:
        lowlevel.current_task()
    except RuntimeError:
        return None
    try:
        return _LOOP.get()
    except LookupError:
        loop = Loop()
        # A RunVar ends with its run.
        _LOOP.set(loop)
        return loop


def protect(*functions: "Callable[..., object]") -> None:
    """Prevents a KeyboardInterrupt from being raised inside these functions. Ctrl-C still ends a wait in them."""
    global _protects
    if not _protects:
        _protects = True
        for function in functions:
            lowlevel.enable_ki_protection(function)


class Future:
    """A future that a trio task awaits. After a cancellation it ignores its result."""

    __slots__ = ("_error", "_is_done", "_result", "_task")

    def __init__(self) -> None:
        self._is_done = False
        self._result: Any = None
        self._error: BaseException | None = None
        self._task: lowlevel.Task | None = None

    def done(self) -> bool:
        return self._is_done

    def set_result(self, result: "Any") -> None:
        self._result = result
        self._settle()

    def set_exception(self, error: BaseException) -> None:
        self._error = error
        self._settle()

    def _settle(self) -> None:
        self._is_done = True
        if self._task is not None:
            lowlevel.reschedule(self._task)

    def _abort(self, _: "Any") -> lowlevel.Abort:
        # Nothing reads the result any more. The native code releases a lease in it.
        self._is_done, self._task = True, None
        return lowlevel.Abort.SUCCEEDED

    async def _wait(self) -> "Any":
        if self._is_done:
            await lowlevel.checkpoint()
        else:
            self._task = lowlevel.current_task()
            await lowlevel.wait_task_rescheduled(self._abort)
        if self._error is not None:
            raise self._error
        return self._result

    def __await__(self) -> "Generator[Any, Any, Any]":
        return self._wait().__await__()

    __iter__ = __await__


class Loop:
    """A run of trio, with the methods of an event loop that the native code calls."""

    __slots__ = ("__weakref__", "_reader", "_token")

    def __init__(self) -> None:
        self._token = lowlevel.current_trio_token()
        self._reader: object = None

    def create_future(self) -> Future:
        return Future()

    def current_task(self) -> lowlevel.Task:
        return lowlevel.current_task()

    def is_closed(self) -> bool:
        # This object ends with its run.
        return False

    def call_later(self, _: float, reader: object) -> None:
        """Keeps the native code's state of this run until the run ends."""
        self._reader = reader

    def add_reader(self, *_: "Any") -> None:
        raise NotImplementedError

    def call_soon_threadsafe(self, function: "Callable[..., object]", *args: "Any") -> None:
        try:
            self._token.run_sync_soon(function, *args)
        except trio.RunFinishedError:
            # Releases the grants that no task has received.
            self._reader = None
            raise

    def call_soon(
        self, function: "Callable[..., object]", *args: "Any", context: "Context | None" = None
    ) -> None:
        run = (function,) if context is None else (context.run, function)
        with suppress(trio.RunFinishedError):
            self.call_soon_threadsafe(_reported, *run, *args)

    def create_task(self, coroutine: "Awaitable[object]") -> "_Task":
        lowlevel.spawn_system_task(_reported_task, coroutine)
        return _Task()


class _Task:
    """A task that the caller does not have to keep a reference to."""

    def add_done_callback(self, done: "Callable[[_Task], object]") -> None:
        done(self)


class Body:
    """The body of an `async with`, in a separate scope, which is cancelled when the lease is lost."""

    __slots__ = ("_is_finished", "_scope")

    def __init__(self) -> None:
        self._scope = trio.CancelScope()
        self._is_finished = False

    def enter(self) -> None:
        """Enters the scope, so that a loss cancels the body from now on."""
        self._scope.__enter__()

    def discard(self, lease: "Lease") -> None:
        """Releases the lease of a body that does not begin, and ignores a later loss."""
        self._is_finished = True
        lease._let_go()

    def lost(self, error: "LockLost") -> None:
        """Called by trio, between the steps of its tasks."""
        if not self._is_finished:
            self._scope.cancel()

    def finish(self, error: BaseException | None) -> tuple[bool, BaseException | None]:
        """Returns whether only our own cancellation ends the body, and the exception that remains without it."""
        self._is_finished = True
        trace = None if error is None else error.__traceback__
        try:
            caught = self._scope.__exit__(None if error is None else type(error), error, trace)
        except BaseException as rest:
            return False, rest
        return error is not None and caught, error

    def ensure_not_cancelled(self) -> None:
        """Does nothing, because a cancelled scope cancels every later wait. asyncio needs this step."""


def _reported(function: "Callable[..., object]", *args: "Any") -> None:
    try:
        function(*args)
    except Exception:
        _report()


async def _reported_task(coroutine: "Awaitable[object]") -> None:
    try:
        await coroutine
    except Exception:
        _report()


def _report() -> None:
    import logging

    logging.getLogger("redlock").exception("a callback of on_lost raised an exception")


_protects = False
_LOOP: "lowlevel.RunVar[Loop]" = lowlevel.RunVar("redlock")
