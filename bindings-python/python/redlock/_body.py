"""The body of an `async with`: cancels its task when the lease is lost, and recognises that cancellation."""

# Like `typing.TYPE_CHECKING`. Importing `typing` takes longer than all the rest.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from redlock.errors import LockLost


class Body:
    """An asyncio task inside an `async with`, which is cancelled once when the lease is lost."""

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

    def begin(self) -> None:
        """Does nothing, because the task exists already. trio needs this step."""

    def lost(self, error: "LockLost") -> None:
        """Cancels the task. Only the event loop calls this, between the steps of its tasks."""
        if not self.done and not self.requested:
            self.requested = True
            self.task.cancel(str(error))

    def finish(self, error: BaseException | None) -> "tuple[bool, BaseException | None]":
        """Returns whether only our own cancellation ends the body, and the exception that ends it."""
        from asyncio import CancelledError

        self.done = True
        ours = self.requested and self.task.uncancel() <= self.cancelling
        return ours and isinstance(error, CancelledError), error
