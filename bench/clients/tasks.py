"""asyncio libraries with a task per caller: LIBRARY MODE PORT[,PORT...] CALLERS SECONDS [uvloop] (see ../programs.py).

MODE: pairs, fenced, handoff, hold.
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from measure import Held, Measured, begin, finish

library, mode, listed, callers, seconds = sys.argv[1:6]
ports = [int(port) for port in listed.split(",")]
CALLERS, SECONDS = int(callers), float(seconds)
# Acquires the lock of a name, and releases what was acquired.
Caller = tuple[Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[object]]]
Callers = Callable[[str], Caller]


def redlock() -> Callers:
    import redlock

    urls = [f"redis://127.0.0.1:{port}" for port in ports]
    client = redlock.AsyncRedlock(urls, restart_guard=0)

    def new_caller(name: str) -> Caller:
        lock = client.lock(name, ttl=10, fencing=mode == "fenced")
        return lock.acquire, redlock.AsyncLease.release

    return new_caller


def redis_py() -> Callers:
    import hiredis  # noqa: F401  (redis-py uses it when it is there; without it the comparison is unfair)
    import redis.asyncio

    client = redis.asyncio.Redis(port=ports[0], max_connections=max(CALLERS, 100))

    def new_caller(name: str) -> Caller:
        # Not thread-local, because all tasks run in one thread.
        lock = client.lock(name, timeout=10, thread_local=False)
        return lock.acquire, lambda _: lock.release()

    return new_caller


async def pairs(new_caller: Callers) -> None:
    callers = [new_caller(f"bench-{number}") for number in range(CALLERS)]

    async def work(way: Caller, measured: Measured) -> None:
        acquire, release = way
        before = time.perf_counter()
        while before < measured.end:
            try:
                await release(await acquire())
            except Exception:
                measured.failed += 1
            now = time.perf_counter()
            measured.took.append(now - before)
            before = now

    async def run(measured: Measured) -> None:
        if CALLERS == 1:
            await work(callers[0], measured)
        else:
            await asyncio.gather(*(work(way, measured) for way in callers))

    await run(Measured(0.15))
    begin()
    measured = Measured(SECONDS)
    await run(measured)
    finish(measured.result())


async def handoff(new_caller: Callers) -> None:
    stamps: list[tuple[int, int, int]] = []
    callers = [new_caller("handoff") for _ in range(CALLERS)]
    acquire, release = new_caller("first")
    await release(await acquire())
    begin()

    async def work(way: Caller) -> None:
        acquire, release = way
        asked = time.monotonic_ns()
        lease = await acquire()
        taken = time.monotonic_ns()
        await asyncio.sleep(0.005)
        stamps.append((asked, taken, time.monotonic_ns()))
        await release(lease)

    async def waves() -> None:
        # A caller tries again only after all callers have had the lock. Otherwise the releasing caller would acquire it
        # again immediately, and the others would only wait.
        while True:
            await asyncio.gather(*(work(way) for way in callers))

    working = asyncio.create_task(waves())
    await asyncio.sleep(SECONDS)
    assert not working.done(), "a call failed"
    finish({"stamps": stamps})


async def hold(new_caller: Callers) -> None:
    held, leases = Held(CALLERS), []
    # As many at once as a busy server has.
    for at in [0, *range(held.tenth, CALLERS, 1000)]:
        numbers = range(at, min(at + 1000, CALLERS) if at else held.tenth)
        leases += await asyncio.gather(*(new_caller(f"held-{number}")[0]() for number in numbers))
        if at == 0:
            held.first()
    held.taken()
    begin()
    await asyncio.sleep(SECONDS)
    finish(held.result(sum(1 for lease in leases if not lease.held)))


async def main() -> None:
    modes = {"pairs": pairs, "fenced": pairs, "handoff": handoff, "hold": hold}
    await modes[mode]({"redlock": redlock, "redis-py": redis_py}[library]())


if sys.argv[6:] == ["uvloop"]:
    import uvloop

    uvloop.run(main())
else:
    asyncio.run(main())
