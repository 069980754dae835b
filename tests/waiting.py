"""Waits for events. The sleeps in this file are the only ones that the first tier needs for polling."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

T = TypeVar("T")

#: Seconds until a condition that does not become true fails the test. Generous, for a busy machine.
DEADLINE = 60.0
#: Seconds between two checks of the condition.
INTERVAL = 0.002


def eventually(condition: Callable[[], T], what: object = "the condition did not come true") -> T:
    """Returns the first true value of the condition, or fails with `what` at the deadline.

    `what` may be a function, for a text that depends on the last state.
    """
    end = time.monotonic() + DEADLINE
    while not (value := condition()):
        if time.monotonic() > end:
            raise AssertionError(what() if callable(what) else what)
        time.sleep(INTERVAL)
    return value


async def aeventually(
    condition: Callable[[], T],
    what: object = "the condition did not come true",
    sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep,
) -> T:
    """`eventually` for a coroutine. Hosts other than asyncio pass their own `sleep`."""
    end = time.monotonic() + DEADLINE
    while not (value := condition()):
        if time.monotonic() > end:
            raise AssertionError(what() if callable(what) else what)
        await sleep(INTERVAL)
    return value


async def forever() -> None:
    """Waits until the task is cancelled."""
    await asyncio.Event().wait()
