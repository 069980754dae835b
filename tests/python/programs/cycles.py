"""Acquires and releases many times, with every way for a call to end, and reports the remaining resources."""

import sys

if sys.argv[2] == "gevent":
    from gevent import monkey

    monkey.patch_all()

import asyncio
import contextlib
import gc
import json
import logging
import os
import time
import warnings
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import redlock

URL, KIND, ROUNDS = sys.argv[1], sys.argv[2], int(sys.argv[3])
client = redlock.Redlock(URL)
counts: Counter[str] = Counter()
free = [client.lock(f"free-{number}", ttl=5) for number in range(10)]
shared = client.lock("shared", ttl=5)
Call = Callable[..., Awaitable[Any]]


async def sync_call(thing: Any, verb: str, *args: Any, **options: Any) -> Any:
    return getattr(thing, verb)(*args, **options)


async def async_call(thing: Any, verb: str, *args: Any, **options: Any) -> Any:
    result = await getattr(thing.as_async(), verb)(*args, **options)
    return result.as_sync() if isinstance(result, redlock.AsyncLease) else result


async def cycle(at: int, call: Call) -> str:
    """Runs one cycle. Most are plain, and some are refused, lost, collected, cancelled, or the client's only one."""
    match at % 50:
        case 3 | 13 | 23 | 33 | 43:
            return await CANCELLED[KIND](at) if KIND in CANCELLED else await refused(call)
        case 7:
            return await refused(call, 0.002 if at % 500 == 7 else 0)
        case 9 | 29:
            return await lost(f"lost-{at}", call)
        case 17:
            await call(client.lock(f"collected-{at}", ttl=0.1), "acquire")
            return "collected"
        case 19:
            with redlock.Redlock(URL) as other:
                await call(await call(other.lock(f"other-{at}"), "acquire"), "release")
            return "clients"
        case 27:
            with contextlib.suppress(ValueError):
                await body(at, call)
            return "raised"
    lease = await call(free[at % 10], "acquire")
    if at % 4 == 0:
        lease.on_lost(print)
    await call(lease, "release")
    return "released"


async def body(at: int, call: Call) -> None:
    if call is async_call:
        async with client.lock(f"body-{at}"):
            raise ValueError
    with client.lock(f"body-{at}"):
        raise ValueError


async def refused(call: Call, wait: float = 0) -> str:
    lease = await call(shared, "acquire")
    with contextlib.suppress(redlock.LockTimeout, redlock.QuorumUnavailable):
        await call(shared, "acquire", wait=wait)
    await call(lease, "release")
    return "refused"


async def lost(name: str, call: Call) -> str:
    lease = await call(client.lock(name, ttl=5), "acquire")
    notified: list[object] = []
    lease.on_lost(notified.append)
    await call(client, "force_release", name)
    end = time.monotonic() + 10
    while lease.held and time.monotonic() < end:
        await pause()
    with contextlib.suppress(redlock.LockLost):
        await call(lease, "release")
    return "lost"


async def cancelled(at: int) -> str:
    async def enter() -> None:
        async with client.lock(f"cancelled-{at % 7}", ttl=5):
            await asyncio.sleep(0)

    task = asyncio.create_task(enter())
    for _ in range(at % 9):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return "cancelled"


async def cancelled_in_trio(at: int) -> str:
    import trio

    with trio.CancelScope() as scope:
        if at % 3 == 0:
            scope.cancel()
        else:
            scope.deadline = trio.current_time() + (at % 9) * 2e-5
        async with client.lock(f"cancelled-{at % 7}", ttl=5):
            await trio.sleep(0)
    return "cancelled"


async def killed(at: int) -> str:
    import gevent

    def enter() -> None:
        with client.lock(f"cancelled-{at % 7}", ttl=5):
            gevent.sleep(0)

    greenlet = gevent.spawn(enter)
    gevent.sleep((at % 9) * 2e-4)
    greenlet.kill()
    return "cancelled"


CANCELLED = {"async": cancelled, "trio": cancelled_in_trio, "gevent": killed}


async def pause() -> None:
    """Gives the running event loop a turn."""
    if KIND == "async":
        await asyncio.sleep(0)
    elif KIND == "trio":
        import trio

        await trio.sleep(0)
    elif KIND == "gevent":
        time.sleep(0)


async def burst(call: Call) -> None:
    for at in range(ROUNDS):
        counts[await cycle(at, call)] += 1


def play() -> None:
    if KIND == "async":
        asyncio.run(burst(async_call))
    elif KIND == "trio":
        import trio

        trio.run(burst, async_call)
    else:
        with contextlib.suppress(StopIteration):  # it contains no wait
            burst(sync_call).send(None)


def measure() -> dict[str, int]:
    for _ in range(4):
        time.sleep(0.1)
        gc.collect()
    with open("/proc/self/statm") as memory:
        rss = int(memory.read().split()[1]) * os.sysconf("SC_PAGESIZE")
    return {
        "rss": rss,
        "blocks": sys.getallocatedblocks(),
        "files": len(os.listdir("/proc/self/fd")),
        "threads": len(os.listdir("/proc/self/task")),
        "leases": len(client.leases()),
    }


# Each loss logs a warning. The console output is not part of the measurement.
logging.getLogger("redlock").addHandler(logging.NullHandler())
logging.getLogger("redlock").propagate = False
warnings.simplefilter("ignore", ResourceWarning)
warnings.simplefilter("ignore", RuntimeWarning)
seen = []
for _ in range(4):
    play()
    seen.append(measure())
print(json.dumps({"seen": seen, "counts": counts}))
