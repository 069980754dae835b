"""The body of an `async with`: how its task is cancelled when the lease is lost, and whose a cancellation is."""

# As `typing` has it, which takes longer to import than all the rest.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from redlock.errors import LockLost


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

    def begin(self) -> None:
        """Its task is there already."""

    def lost(self, error: "LockLost") -> None:
        """Called by the loop, never by the task's own step: that would be cancelled at its next await."""
        if not self.done and not self.requested:
            self.requested = True
            self.task.cancel(str(error))

    def finish(self, error: BaseException | None) -> "tuple[bool, BaseException | None]":
        """Returns whether only our own cancellation ends the body, and the exception that ends it."""
        from asyncio import CancelledError

        self.done = True
        ours = self.requested and self.task.uncancel() <= self.cancelling
        return ours and isinstance(error, CancelledError), error
