"""The actions of a body, combined with the causes of its cancellation. A lost lock is one cause.
docs/contributing/cancellation.md has the table.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import redlock

from tests.waiting import eventually, forever

Body = Callable[[], Awaitable[None]]
Cause = Callable[["Holder"], Awaitable[None]]


class Holder:
    """A task that holds a lock around a body, inside an asyncio.timeout without a deadline."""

    def __init__(self, client: redlock.Redlock, name: str, body: Body, entry: str) -> None:
        self.client, self.name, self.body, self.entry = client, name, body, entry
        self.inside = asyncio.Event()
        self.lease: Any = None
        self.timeout = asyncio.timeout(None)
        self.cancelling = -1
        self.task = asyncio.create_task(self.run())

    async def run(self) -> None:
        lock = self.client.lock(self.name)
        try:
            async with (
                self.timeout,
                lock if self.entry == "lock" else await lock.as_async().acquire() as lease,
            ):
                self.lease = lease
                self.inside.set()
                await self.body()
        finally:
            self.cancelling = asyncio.current_task().cancelling()  # type: ignore[union-attr]

    def lose(self) -> None:
        """Ends the lease without informing the loop yet."""
        self.client.force_release(self.name)
        eventually(lambda: not self.lease.held)

    async def cancellation_requested(self) -> None:
        """Waits until cancellation of the body has been requested. The body has not run since."""
        while self.task.cancelling() == 0:
            await asyncio.sleep(0)
        assert self.task.cancelling() == 1


async def waits() -> None:
    await forever()


async def steps() -> None:
    """Yields to the loop often enough that a second cancellation arrives meanwhile."""
    for _ in range(100):
        await asyncio.sleep(0)


async def cleans_up() -> None:
    try:
        await forever()
    finally:
        await steps()


async def swallows() -> None:
    """Swallows every cancellation. The second may still be pending."""
    with contextlib.suppress(asyncio.CancelledError):
        await forever()
    with contextlib.suppress(asyncio.CancelledError):
        await steps()


async def raises() -> None:
    try:
        await forever()
    except asyncio.CancelledError:
        raise KeyError(1) from None


async def outer(holder: Holder) -> None:
    holder.task.cancel()


async def timeout(holder: Holder) -> None:
    holder.timeout.reschedule(asyncio.get_running_loop().time())


async def loss(holder: Holder) -> None:
    holder.lose()


async def loss_then_outer(holder: Holder) -> None:
    holder.lose()
    await holder.cancellation_requested()
    holder.task.cancel()


async def outer_then_loss(holder: Holder) -> None:
    holder.lose()
    holder.task.cancel()  # the task runs before the loss notification


async def loss_then_timeout(holder: Holder) -> None:
    holder.lose()
    await holder.cancellation_requested()
    holder.timeout.reschedule(asyncio.get_running_loop().time())


CANCELLED, LOST = asyncio.CancelledError, redlock.LockLost

#: The outcomes, by cause of cancellation (rows) and action of the body (columns).
BODIES = [waits, cleans_up, swallows, raises]
OUTCOMES: list[tuple[Cause, list[type[BaseException] | None]]] = [
    (outer, [CANCELLED, CANCELLED, None, KeyError]),
    (timeout, [TimeoutError, TimeoutError, None, KeyError]),
    (loss, [LOST, LOST, LOST, KeyError]),
    (loss_then_outer, [CANCELLED, CANCELLED, LOST, KeyError]),
    (outer_then_loss, [CANCELLED, CANCELLED, LOST, KeyError]),
    # At the time of the timeout, the last body is in its exit. The timeout's CancelledError then replaces the KeyError.
    (loss_then_timeout, [TimeoutError, TimeoutError, LOST, TimeoutError]),
]
CASES = [
    pytest.param(cause, body, outcome, id=f"{cause.__name__}-{body.__name__}")
    for cause, outcomes in OUTCOMES
    for body, outcome in zip(BODIES, outcomes, strict=True)
]


@pytest.mark.parametrize("entry", ["lock", "lease"])
@pytest.mark.parametrize(("cause", "body", "outcome"), CASES)
def test_outcome_of_each_cause_and_body(
    cause: Cause, body: Body, outcome: type[BaseException] | None, entry: str, name: str
) -> None:
    async def main() -> None:
        with redlock.Redlock("memory://") as client:
            holder = Holder(client, name, body, entry)
            await holder.inside.wait()
            await cause(holder)
            (result,) = await asyncio.gather(holder.task, return_exceptions=True)
            assert result is None if outcome is None else type(result) is outcome
            assert not (await client.lock(name).as_async().inspect()).held
        lost = cause not in (outer, timeout)
        if outcome is LOST:
            assert result.reason == "missing"
        if outcome is KeyError:
            notes = getattr(result, "__notes__", [])
            assert any(f"lock:{name}" in note for note in notes) == lost
        # Our own cancellation request is withdrawn in every case, and no other is.
        assert holder.cancelling == (cause in (outer, loss_then_outer, outer_then_loss))

    asyncio.run(main())
