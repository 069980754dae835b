"""A program whose running event loop survives while it closes the descriptors of redlock. Prints what happens."""

import asyncio
import json
import os
import sys
import time

import redlock

url, name = sys.argv[1:]
results: dict[str, object] = {}


def first_free() -> int:
    number = os.dup(0)
    os.close(number)
    return number


async def waits(client: redlock.AsyncRedlock) -> str:
    try:
        async with client.lock(name, ttl=60, wait=30):
            return "acquired"
    except redlock.LockError as error:
        return type(error).__name__


async def main() -> None:
    first = first_free()
    client = redlock.AsyncRedlock(url)
    begun = time.monotonic()
    try:
        async with client.lock(name, ttl=3):
            waiter = asyncio.create_task(waits(redlock.AsyncRedlock(url)))
            await asyncio.sleep(0.2)
            os.closerange(first, 256)
            await asyncio.sleep(20)
    except redlock.LockLost as error:
        results["reason"] = error.reason
    results["told"] = time.monotonic() - begun
    results["waiter"] = await waiter
    calls = []
    for number in range(3):
        try:
            async with client.lock(f"{name}-{number}", ttl=3, wait=5) as held:
                calls.append(held.held)
        except redlock.LockError as error:
            calls.append(str(error))
    results["calls"] = calls


asyncio.run(main())
print(json.dumps(results))
