"""Waits of the test clients: for loss callbacks, and until a condition holds.

A wait is a generator that looks once in each step. `block` and `turns` run it for the two kinds of clients.
"""

import asyncio
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Self

from redlock._asyncio import _trio
from redlock._native import AsyncLock, Lease, Lock, Redlock, _advance_memory, _now

Wait = Iterator[None]

Names = str | list[str] | tuple[str, ...] | Lock | AsyncLock

#: How long `lose` and `advance` wait for the loss callbacks, in seconds on a clock that freezegun does not replace.
NOTIFY_TIMEOUT = 1.0


class Notified:
    """Waits up to `NOTIFY_TIMEOUT` seconds for the loss callbacks of some leases, in a with statement."""

    def __init__(self, held: list[Lease]) -> None:
        self._held = held
        self._notified: list[Lease] = []
        self._forget = [lease.on_lost(self._record_loss(lease)) for lease in held]
        self._end = _now() + NOTIFY_TIMEOUT

    def _record_loss(self, lease: Lease) -> "Callable[[object], None]":
        return lambda _: self._notified.append(lease)

    def until_notified(self) -> Wait:
        """Waits until the callbacks of the leases that have ended have run."""
        while self._missing() and _now() < self._end:
            yield

    def _missing(self) -> bool:
        return any(not lease.held and lease not in self._notified for lease in self._held)

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


def until_lost(held: list[Lease]) -> Wait:
    """Waits up to `NOTIFY_TIMEOUT` seconds until none of these leases is held."""
    end = _now() + NOTIFY_TIMEOUT
    while any(lease.held for lease in held) and _now() < end:
        yield


def jump(client: Redlock, node: str, seconds: "float | timedelta") -> Wait:
    """Advances the time of the node, and waits for the loss callbacks of the client."""
    with Notified(client.leases()) as notified:
        _advance_memory(node, seconds)
        yield from notified.until_notified()


def until_waiting(client: Redlock, count: int, timeout: "float | timedelta") -> Wait:
    """Waits until this many acquires of the client are under way."""

    def what() -> str:
        return f"{client.stats().waiting} acquires are under way, fewer than {count}"

    end = Deadline(timeout, what)
    while client.stats().waiting < count:
        end.check()
        yield


def block(wait: Wait) -> None:
    """Runs a wait on this thread."""
    for _ in wait:
        time.sleep(0.001)


async def turns(wait: Wait) -> None:
    """Runs a wait on an event loop."""
    for _ in wait:
        await turn()


async def turn() -> None:
    """Lets the event loop run other tasks and callbacks, under asyncio and trio."""
    if "trio" in sys.modules and _trio() is not None:
        import trio

        await trio.lowlevel.checkpoint()
    else:
        await asyncio.sleep(0)
