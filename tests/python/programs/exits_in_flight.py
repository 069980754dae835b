"""Acquires locks and ends in the handler of SIGTERM. Arguments: the URL, a prefix of the names, what waits."""

import asyncio
import signal
import sys
import threading

import redlock

url, prefix, by = sys.argv[1:]
client = redlock.Redlock(url)
client.lock(f"{prefix}-first").acquire().release()
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print("connected", flush=True)
sys.stdin.readline()


def lock(number: int) -> redlock.Lock:
    return client.lock(f"{prefix}-{number}", ttl=60)


async def tasks() -> None:
    locks = [lock(number) for number in range(5)]
    await asyncio.gather(*(each.as_async().acquire() for each in locks))


def start(*numbers: int) -> None:
    for number in numbers:
        threading.Thread(target=lock(number).acquire, daemon=True).start()


match by:
    case "main thread":
        start(1, 2, 3, 4)
        lock(0).acquire()
    case "daemon threads":
        start(*range(5))
        threading.Event().wait()
    case "asyncio.run":
        asyncio.run(tasks())
    case "an open loop":
        asyncio.new_event_loop().run_until_complete(tasks())
    case "a loop on a daemon thread":
        threading.Thread(target=lambda: asyncio.run(tasks()), daemon=True).start()
        threading.Event().wait()
