"""Forks while threads lock: URL NAME FORKS.

Every child drops what it inherited, locks again, sync and in asyncio, and reports the result in its exit code.
"""

import asyncio
import gc
import os
import signal
import sys
import threading
import time
import warnings

import redlock

url, name, forks = sys.argv[1], sys.argv[2], int(sys.argv[3])
warnings.simplefilter("ignore", DeprecationWarning)  # fork with threads, from 3.12 on
client = redlock.Redlock(url)
stop = threading.Event()
#: Children at a time.
MANY = 8
#: Seconds after which a child counts as hanging. SIGALRM ends it.
HANGS = 30
#: Leases of the threads, which they end in every way, and which the children drop.
kept: list[tuple[str, redlock.Lease]] = []


def hammer(number: int) -> None:
    """Locks new keys and one shared key, with a callback on every third, so that every thread of redlock is active."""
    at = 0
    while not stop.is_set():
        at += 1
        with client.lock(f"{name}-{number}-{at}" if at % 2 else name, ttl=20, wait=60) as lease:
            if at % 3 == 0:
                lease.on_lost(print)


def keep() -> None:
    """Keeps leases for a while. Then it releases, detaches or loses them."""
    at = 0
    while not stop.is_set():
        at += 1
        key = f"{name}-kept-{at}"
        lease = client.lock(key, ttl=20).acquire()
        lease.on_lost(lambda _: None)
        kept.append((key, lease))
        if len(kept) < 10:
            continue
        old, lease = kept.pop(0)
        if at % 4 == 0:
            lease.release()
        elif at % 4 == 1:
            lease.detach()
        client.force_release(old)


def loop() -> None:
    async def main() -> None:
        while not stop.is_set():
            async with client.lock(name, ttl=20, wait=60):
                await asyncio.sleep(0)

    asyncio.run(main())


async def alock(number: int) -> bool:
    async with client.lock(f"{name}-child-{number % 3}", ttl=20, wait=60) as lease:
        return lease.held


def child(number: int) -> bool:
    if client.leases() or held.held:
        return False
    kept.clear()
    gc.collect()
    with client.lock(name if number % 2 else f"{name}-child-{number % 3}", ttl=20, wait=60):
        pass
    return number % 2 == 0 or asyncio.run(alock(number))


def reap(running: dict[int, int], most: int) -> None:
    while len(running) > most:
        pid, status = os.wait()
        number = running.pop(pid)
        if status:
            stop.set()
            sys.exit(f"child {number} ended with {status}")


# asyncio creates it under its own lock. A child that was forked meanwhile would wait for that lock forever.
asyncio.get_event_loop_policy()
held = client.lock(f"{name}-held", ttl=60).acquire()
threads = [threading.Thread(target=hammer, args=(number,), daemon=True) for number in range(3)]
threads.extend(threading.Thread(target=run, daemon=True) for run in (loop, keep))
for thread in threads:
    thread.start()
begun = time.monotonic()
children: dict[int, int] = {}
for number in range(forks):
    pid = os.fork()
    if pid == 0:
        signal.alarm(HANGS)
        os._exit(0 if child(number) else 1)
    children[pid] = number
    reap(children, MANY - 1)
reap(children, 0)
stop.set()
for thread in threads:
    thread.join(60)
assert held.held
held.release()
for _, lease in kept:
    lease.release()
print("done", client.shutdown(0))
print(f"{forks} forks in {time.monotonic() - begun:.1f} s", file=sys.stderr)
