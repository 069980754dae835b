"""Ends while threads, loops and callbacks are in the middle of something: URL NAME WHAT."""

import asyncio
import sys
import threading
import time
import warnings
from collections.abc import Callable

import redlock

warnings.simplefilter("ignore")
url, name, what = sys.argv[1:]
client = redlock.Redlock(url)
begun = threading.Event()


def waits() -> None:
    begun.set()
    client.lock(name, ttl=1).acquire()


def cycles() -> None:
    mine = client.lock(f"{name}-{threading.get_ident()}", ttl=1)
    while True:
        with mine:
            begun.set()


def extends() -> None:
    lease = client.lock(f"{name}-{threading.get_ident()}", ttl=1).acquire()
    while True:
        lease.extend()
        begun.set()


def is_told() -> None:
    while True:
        lease = client.lock(f"{name}-{threading.get_ident()}", ttl=1).acquire()
        lease.on_lost(lambda _: begun.set())
        client.force_release(f"{name}-{threading.get_ident()}")
        while lease.held:
            pass


def loops() -> None:
    async def main() -> None:
        while True:
            async with client.lock(f"{name}-{threading.get_ident()}", ttl=1):
                begun.set()

    asyncio.run(main())


bodies: dict[str, Callable[[], None]] = {
    "waits": waits,
    "cycles": cycles,
    "extends": extends,
    "is_told": is_told,
    "loops": loops,
}
held = client.lock(name, ttl=1).acquire()
for _ in range(4):
    threading.Thread(target=bodies[what], daemon=True).start()
begun.wait(10)
time.sleep(0.02)
print("done", flush=True)
