"""Blocking Python libraries with a thread per caller: LIBRARY MODE PORT[,PORT...] CALLERS SECONDS (see ../programs.py).

MODE: pairs, fenced, handoff, hold.
"""

import importlib
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from measure import Held, Measured, begin, finish, in_threads

library, mode, listed, callers, seconds = sys.argv[1:6]
ports = [int(port) for port in listed.split(",")]
CALLERS, SECONDS = int(callers), float(seconds)
# Acquires the lock of a name, and releases what was acquired.
Caller = tuple[Callable[[], Any], Callable[[Any], object]]
Callers = Callable[[str], Caller]


def redlock() -> Callers:
    import redlock

    urls = [f"redis://127.0.0.1:{port}" for port in ports]
    client = redlock.Redlock(urls, restart_guard=0)

    def new_caller(name: str) -> Caller:
        return client.lock(name, ttl=10, fencing=mode == "fenced").acquire, redlock.Lease.release

    return new_caller


def connected() -> Any:  # noqa: ANN401
    import hiredis  # noqa: F401  (redis-py uses it when it is there; without it the comparison is unfair)
    import redis

    return redis.Redis(port=ports[0], max_connections=max(CALLERS, 100))


def redis_py() -> Callers:
    client = connected()

    def new_caller(name: str) -> Caller:
        # A lock object keeps its token per thread.
        lock = client.lock(name, timeout=10)
        return lock.acquire, lambda _: lock.release()

    return new_caller


def python_redis_lock() -> Callers:
    import redis_lock

    client = connected()

    def new_caller(name: str) -> Caller:
        lock = redis_lock.Lock(client, name, expire=10)
        return lock.acquire, lambda _: lock.release()

    return new_caller


def redlock_py() -> Callers:
    # Our package has the same import name. programs.py makes only one of them visible to each program.
    import hiredis  # noqa: F401

    nodes = [
        {"host": "127.0.0.1", "port": port, "max_connections": max(CALLERS, 100)} for port in ports
    ]
    # Zero would mean its default of three attempts.
    client = importlib.import_module("redlock").Redlock(
        nodes, retry_count=1_000_000 if mode == "handoff" else 1
    )

    def acquire(name: str) -> Any:  # noqa: ANN401
        lease = client.lock(name, 10_000)
        if not lease:
            raise TimeoutError
        return lease

    return lambda name: (lambda: acquire(name), client.unlock)


def pairs(new_caller: Callers) -> None:
    callers = [new_caller(f"bench-{number}") for number in range(CALLERS)]

    def run(measured: Measured) -> None:
        def work(number: int) -> None:
            acquire, release = callers[number]
            before = time.perf_counter()
            while before < measured.end:
                try:
                    release(acquire())
                except Exception:
                    measured.failed += 1
                now = time.perf_counter()
                measured.took.append(now - before)
                before = now

        if CALLERS == 1:
            work(0)
        else:
            in_threads(CALLERS, work)

    run(Measured(0.15))
    begin()
    measured = Measured(SECONDS)
    run(measured)
    finish(measured.result())


def handoff(new_caller: Callers) -> None:
    stamps: list[tuple[int, int, int]] = []
    callers = [new_caller("handoff") for _ in range(CALLERS)]
    # A caller tries again only after all callers have had the lock. Otherwise the releasing caller would acquire it
    # again immediately, and the others would only wait.
    wave = threading.Barrier(CALLERS)
    acquire, release = new_caller("first")
    release(acquire())
    begin()

    def work(number: int) -> None:
        acquire, release = callers[number]
        while True:
            wave.wait()
            asked = time.monotonic_ns()
            lease = acquire()
            taken = time.monotonic_ns()
            time.sleep(0.005)
            stamps.append((asked, taken, time.monotonic_ns()))
            release(lease)

    for number in range(CALLERS):
        threading.Thread(target=work, args=(number,), daemon=True).start()
    time.sleep(SECONDS)
    finish({"stamps": stamps})


def hold(new_caller: Callers) -> None:
    held = Held(CALLERS)
    leases = [new_caller(f"held-{number}")[0]() for number in range(held.tenth)]
    held.first()
    leases += [new_caller(f"held-{number}")[0]() for number in range(held.tenth, CALLERS)]
    held.taken()
    begin()
    time.sleep(SECONDS)
    finish(held.result(sum(1 for lease in leases if not lease.held)))


LIBRARIES = {
    "redlock": redlock,
    "redis-py": redis_py,
    "python-redis-lock": python_redis_lock,
    "redlock-py": redlock_py,
}
MODES = {"pairs": pairs, "fenced": pairs, "handoff": handoff, "hold": hold}
MODES[mode](LIBRARIES[library]())
