"""Leases that the program refers to are lost at different moments of a collection of a large heap."""

import gc
import time
from collections.abc import Callable

import redlock

TRIALS = 30

client = redlock.Redlock("memory://")
told: list[int] = []


def callback_of(trial: int) -> Callable[[redlock.LockLost], None]:
    return lambda _: told.append(trial)


gc.disable()
heap = [[number] for number in range(1_000_000)]
gc.collect()
begun = time.monotonic()
gc.collect()
takes = time.monotonic() - begun
for trial in range(TRIALS):
    lease = client.lock(f"job{trial}", ttl=0.1, renew=False).acquire()
    lease.on_lost(callback_of(trial))
    time.sleep(max(0, lease.remaining - takes * (trial % 10 + 0.5) / 10))
    gc.collect()
    end = time.monotonic() + 10
    while trial not in told and time.monotonic() < end:
        time.sleep(0.01)
print(told == list(range(TRIALS)), len(heap))
