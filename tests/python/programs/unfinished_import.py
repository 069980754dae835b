"""Uses a lock while `contextvars` is being imported: in a thread, with loss callbacks, and in an event loop."""

import asyncio
import logging
import sys
import types

import redlock.testing

logging.getLogger("redlock").setLevel(logging.DEBUG)
sys.modules["contextvars"] = types.ModuleType("contextvars")
client = redlock.testing.TestRedlock()
with client.lock("job") as lease:
    lease.on_lost(print)
    plain = lease.held


async def main() -> bool:
    async with client.as_async().lock("job") as lease:
        lease.on_lost(print)
        return lease.held


print(plain, asyncio.run(main()))
