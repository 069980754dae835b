"""Acquires and releases: pairs.py one|many URL PAIRS, in one thread or in 64 asyncio tasks."""

import asyncio
import sys

import redlock

kind, url, pairs = sys.argv[1], sys.argv[2], int(sys.argv[3])
client = redlock.Redlock(url, restart_guard=0)


def one() -> None:
    lock = client.lock("job", ttl=60)
    for _ in range(pairs):
        lock.acquire().release()


async def many() -> None:
    aclient = client.as_async()

    async def work(lock: redlock.AsyncLock) -> None:
        for _ in range(pairs // 64):
            await (await lock.acquire()).release()

    await asyncio.gather(*(work(aclient.lock(f"job-{it}", ttl=60)) for it in range(64)))


one() if kind == "one" else asyncio.run(many())
client.close()
