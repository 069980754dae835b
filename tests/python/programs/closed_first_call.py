"""A program that closes the descriptors of redlock, and then makes one call. Prints whether it ended as it should."""

import asyncio
import gc
import os
import sys
import threading

import redlock
from redlock.testing import AsyncTestRedlock, TestRedlock

how, url, name = sys.argv[1:]


def first_free() -> int:
    number = os.dup(0)
    os.close(number)
    return number


def on_lost() -> bool:
    lease = redlock.Redlock(url).lock(name, ttl=3).acquire()
    os.closerange(3, 256)
    told = threading.Event()
    lease.on_lost(lambda _: told.set())
    return told.wait(10)


def none() -> bool:
    """Closes them while the background thread may still begin with the lease."""
    lease = redlock.Redlock("memory://").lock(name, ttl=30).acquire()
    told = threading.Event()
    lease.on_lost(lambda _: told.set())
    os.closerange(3, 256)
    return told.wait(10)


def drop() -> bool:
    clients = [redlock.Redlock(url), TestRedlock()]
    leases = [client.lock(name, ttl=3).acquire() for client in clients]
    os.closerange(3, 256)
    del clients, leases
    gc.collect()
    return True


def advance() -> bool:
    fake = TestRedlock()
    fake.lock(name).acquire()
    os.closerange(3, 256)
    try:
        fake.advance(60)
    except redlock.LockError as error:
        return "descriptors" in str(error)
    return True


def advance_during() -> bool:
    fake = TestRedlock()
    lease = fake.lock(name).acquire()
    # Ten years of renewals take hours.
    thread = threading.Thread(target=fake.advance, args=(3e8,), daemon=True)
    thread.start()
    while fake.stats().renewed < 10:
        pass
    os.closerange(3, 256)
    thread.join(10)
    return not thread.is_alive() and not lease.held


async def advance_in_loop() -> bool:
    first = first_free()
    fake = AsyncTestRedlock()
    lease = await fake.lock(name).acquire()
    advance = asyncio.ensure_future(fake.advance(3e8))
    while fake.stats().renewed < 10:
        await asyncio.sleep(0)
    keep = kept_by_loop()
    for number in set(range(first, 256)) - keep:
        os.closerange(number, number + 1)
    await asyncio.wait([advance], timeout=10)
    return advance.done() and not lease.held


def kept_by_loop() -> set[int]:
    """The descriptors with which redlock wakes this loop, which the loop watches like those of the program."""
    selector = asyncio.get_running_loop()._selector  # type: ignore[attr-defined]
    return {selector.fileno(), *selector.get_map()}


if how == "advance_in_loop":
    print(asyncio.run(advance_in_loop()))
else:
    print(globals()[how]())
