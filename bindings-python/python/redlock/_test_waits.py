"""Waits of the test clients: for loss callbacks, and until a condition holds."""

import asyncio
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Self

from redlock._asyncio import _trio
from redlock._native import AsyncLock, Lease, Lock, _now

Names = str | list[str] | tuple[str, ...] | Lock | AsyncLock

#: How long `lose` and `advance` wait for the loss callbacks, in seconds on a clock that freezegun does not replace.
NOTIFY_TIMEOUT = 1.0


def notify_end() -> float:
    """Returns when a wait for loss callbacks ends."""
    return _now() + NOTIFY_TIMEOUT


class Notified:
    """Waits up to `NOTIFY_TIMEOUT` seconds for the loss callbacks of some leases, in a with statement."""

    def __init__(self, held: list[Lease]) -> None:
        self._held = held
        self._notified: list[Lease] = []
        self._forget = [lease.on_lost(self._note(lease)) for lease in held]
        self._end = notify_end()

    def _note(self, lease: Lease) -> "Callable[[object], None]":
        return lambda _: self._notified.append(lease)

    def missing(self) -> bool:
        """Whether a callback of a lease that has ended has not run."""
        waiting = [lease for lease in self._held if not lease.held and lease not in self._notified]
        return bool(waiting) and _now() < self._end

    def __enter__(self) -> "Self":
        return self

    def __exit__(self, *_: object) -> None:
        for forget in self._forget:
            forget()


class Deadline:
    """The end of a wait, on a clock that freezegun does not replace."""

    def __init__(self, timeout: "float | timedelta", what: "Callable[[], str]") -> None:
        seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        self._end = _now() + seconds
        self._what = what

    def check(self) -> None:
        """Raises TimeoutError after the end."""
        if _now() >= self._end:
            raise TimeoutError(self._what())


async def turn() -> None:
    """Lets the event loop run other tasks and callbacks, under asyncio and trio."""
    if "trio" in sys.modules and _trio() is not None:
        import trio

        await trio.lowlevel.checkpoint()
    else:
        await asyncio.sleep(0)
