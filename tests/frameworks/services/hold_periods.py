"""Work under a lock that records each time at which it certainly held the lock, even if the process is killed."""

import os
import random
import time
from collections.abc import Iterator

import redlock

CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
#: In both services, and known to the test.
TTL, WAIT, LONGEST = 1.5, 2.0, 1.0
#: Created before any fork, as programs do.
client = redlock.Redlock(os.environ["REDIS_URL"], key_prefix="svc:")
FILE = os.open(os.environ["HOLD_PERIODS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def lock(name: str) -> redlock.Lock:
    return client.lock(name, ttl=TTL, wait=WAIT, fencing=True)


def hold_period(name: str, lease: redlock.Lease) -> Iterator[float]:
    """Yields the seconds to pause between two checks, until the work is done or the lease is lost."""
    end = time.monotonic() + random.choice((0, 0.02, 0.2, LONGEST))
    while True:
        # `held` never becomes true again, so a lock that is held later was held now.
        asked = time.clock_gettime_ns(CLOCK)
        if not lease.held:
            return
        line = f"{name} {lease.fencing_token} {os.getpid()} {asked}\n"
        os.write(FILE, line.encode())
        if time.monotonic() >= end:
            return
        yield 0.005
