"""Ends while a task is in the body of an `async with`. The interpreter then closes its coroutine: URL NAME."""

import asyncio
import sys

import redlock

client = redlock.Redlock(sys.argv[1])


async def main() -> None:
    async with client.lock(sys.argv[2], ttl=300) as lease:
        entered.set_result(lease.held)
        await loop.create_future()


loop = asyncio.new_event_loop()
entered = loop.create_future()
tasks = [loop.create_task(main())]
print(loop.run_until_complete(entered), flush=True)
