"""A program that closes the descriptors of redlock right before it ends its client. Prints how the call ended."""

import asyncio
import os
import sys

import redlock

url, name, how = sys.argv[1:]


def first_free() -> int:
    number = os.dup(0)
    os.close(number)
    return number


async def main() -> str:
    first = first_free()
    client = redlock.AsyncRedlock(url)
    lease = await client.lock(name, ttl=3).acquire()
    os.closerange(first, 256)
    try:
        match how:
            case "shutdown":
                await client.shutdown(1)
            case "release_all":
                await client.release_all()
            case "release":
                await lease.release()
    except redlock.LockError as error:
        return type(error).__name__
    return "returned"


print(asyncio.run(main()))
