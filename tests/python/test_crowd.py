"""Crowds of waiters on one client of whom some leave: the others are served, in the order in which they came."""

import asyncio
import contextlib
import random
import statistics
import threading
import time
from collections import Counter

import redlock

CROWD = 50
#: Waiters ask anyway after up to a second: somebody whom nobody woke costs half of one at least.
STALL = 0.5


class Served:
    """Who was served, when, and that nobody was beside them."""

    def __init__(self) -> None:
        self.order: list[int] = []
        self.inside: Counter[str] = Counter()
        self.gaps: list[float] = []
        self._last = time.monotonic()

    def enter(self, number: int, *names: str) -> None:
        self.gaps.append(time.monotonic() - self._last)
        self.order.append(number)
        self.inside.update(names or ("",))
        assert max(self.inside.values()) == 1

    def leave(self, *names: str) -> None:
        self.inside.subtract(names or ("",))
        self.free()

    def free(self) -> None:
        """From now on somebody should be served."""
        self._last = time.monotonic()


async def ended(waiting: list[asyncio.Task[None]]) -> None:
    """Waits for all; what failed in another way than by a cancellation fails here."""
    for outcome in await asyncio.gather(*waiting, return_exceptions=True):
        if outcome is not None and not isinstance(outcome, asyncio.CancelledError):
            raise outcome


async def leave_at_random(waiting: list[asyncio.Task[None]], within: float) -> set[int]:
    """Cancels half of the crowd, one after the other, in no order."""
    leavers = random.sample(range(len(waiting)), len(waiting) // 2)
    for number in leavers:
        await asyncio.sleep(random.uniform(0, 2 * within / len(leavers)))
        waiting[number].cancel()
    return set(leavers)


def test_tasks_that_are_cancelled_leave_the_others_in_order(
    client: redlock.Redlock, name: str
) -> None:
    """By `cancel`, or by `asyncio.timeout`: before their turn, at it and after it."""
    lock, served = client.lock(name), Served()

    async def wait(number: int) -> None:
        limit = random.uniform(0.05, 0.3) if number % 10 == 0 else None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit), lock:
                served.enter(number)
                try:
                    await asyncio.sleep(0.003)
                finally:
                    served.leave()

    async def main() -> set[int]:
        async with lock:
            waiting = [asyncio.create_task(wait(number)) for number in range(CROWD)]
            await asyncio.sleep(0.05)
            leaving = asyncio.create_task(leave_at_random(waiting, 0.2))
            await asyncio.sleep(0.05)
            served.free()
        left = await leaving
        await ended(waiting)
        return left

    left = asyncio.run(main())
    assert served.order == sorted(served.order)
    stayed = {number for number in range(CROWD) if number % 10 and number not in left}
    assert stayed <= set(served.order)
    assert statistics.median(served.gaps) < STALL, "the next one was not woken"
    assert client.leases() == []


def test_threads_that_give_up_leave_the_others(client: redlock.Redlock, name: str) -> None:
    served, failed = Served(), []

    def wait(number: int) -> None:
        patience = random.uniform(0.02, 0.3) if number % 2 else None
        try:
            with client.lock(name, wait=patience):
                served.enter(number)
                time.sleep(0.003)
                served.leave()
        except redlock.LockTimeout:
            failed.append(number)

    with client.lock(name):
        threads = [threading.Thread(target=wait, args=(number,)) for number in range(CROWD)]
        for thread in threads:
            thread.start()
        time.sleep(0.1)
        served.free()
    for thread in threads:
        thread.join()
    assert sorted(served.order + failed) == list(range(CROWD))
    assert all(number % 2 for number in failed)
    assert statistics.median(served.gaps) < STALL, "the next one was not woken"


def test_crowds_over_several_names_never_block_each_other(
    client: redlock.Redlock, name: str
) -> None:
    """[a, b], [b, a] and [b, c] queue in one step each, whoever of them leaves."""
    a, b, c = (f"{name}-{letter}" for letter in "abc")
    choices, served = [(a, b), (b, a), (b, c), (c, a), (c,)], Served()

    async def wait(number: int) -> None:
        names = choices[number % len(choices)]
        async with client.lock(names):
            served.enter(number, *names)
            try:
                await asyncio.sleep(0.003)
            finally:
                served.leave(*names)

    async def main() -> set[int]:
        async with client.lock([c, b, a]):
            waiting = [asyncio.create_task(wait(number)) for number in range(CROWD)]
            await asyncio.sleep(0.05)
            leaving = asyncio.create_task(leave_at_random(waiting, 0.2))
            await asyncio.sleep(0.05)
            served.free()
        left = await leaving
        async with asyncio.timeout(20):
            await ended(waiting)
        return left

    left = asyncio.run(main())
    assert set(range(CROWD)) - left <= set(served.order)
    for first in range(
        len(choices)
    ):  # of those who want the same, the first to come is the first served
        same = [number for number in served.order if number % len(choices) == first]
        assert same == sorted(same)
    assert statistics.median(served.gaps) < STALL, "the next one was not woken"
