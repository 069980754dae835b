"""Acquire and release, one after the other, median in us: pair.py PORT PAIRS redlock|redis-py."""

import statistics
import sys
import time
from collections.abc import Callable

port, pairs, library = sys.argv[1], int(sys.argv[2]), sys.argv[3]


def redlock_pair() -> Callable[[], None]:
    import redlock

    lock = redlock.Redlock([f"redis://127.0.0.1:{port}"]).lock("bench", ttl=10)

    def pair() -> None:
        lock.acquire().release()

    return pair


def redis_py_pair() -> Callable[[], None]:
    import hiredis  # noqa: F401  (redis-py uses it when it is there; without it the comparison is unfair)
    import redis

    lock = redis.Redis(port=int(port)).lock("bench", timeout=10)

    def pair() -> None:
        lock.acquire()
        lock.release()

    return pair


def measure(pair: Callable[[], None]) -> float:
    begin = time.perf_counter()
    pair()
    return time.perf_counter() - begin


chosen = redlock_pair() if library == "redlock" else redis_py_pair()
print(f"{statistics.median(measure(chosen) for _ in range(pairs)) * 1e6:.2f}")
