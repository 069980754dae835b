"""64 asyncio tasks on 64 names: tasks.py PORT SECONDS redlock|redis-py prints pairs per second."""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable

TASKS = 64
port, seconds, library = sys.argv[1], float(sys.argv[2]), sys.argv[3]
Pair = Callable[[], Awaitable[None]]


def redlock_pairs() -> list[Pair]:
    import redlock

    client = redlock.Redlock([f"redis://127.0.0.1:{port}"])

    def of(lock: redlock.Lock) -> Pair:
        async def pair() -> None:
            lease = await lock.aacquire()
            await lease.arelease()

        return pair

    return [of(client.lock(f"bench-{task}", ttl=10)) for task in range(TASKS)]


def redis_py_pairs() -> list[Pair]:
    import hiredis  # noqa: F401  (as in pair.py)
    import redis.asyncio

    client = redis.asyncio.Redis(port=int(port))

    def of(name: str) -> Pair:
        lock = client.lock(name, timeout=10)

        async def pair() -> None:
            await lock.acquire()
            await lock.release()

        return pair

    return [of(f"bench-{task}") for task in range(TASKS)]


async def main() -> None:
    done = 0

    async def worker(pair: Pair) -> None:
        nonlocal done
        while time.perf_counter() < end:
            await pair()
            done += 1

    pairs = redlock_pairs() if library == "redlock" else redis_py_pairs()
    await asyncio.gather(*(pair() for pair in pairs))  # connects
    begin = time.perf_counter()
    end = begin + seconds
    await asyncio.gather(*(worker(pair) for pair in pairs))
    print(f"{done / (time.perf_counter() - begin):.0f}")


asyncio.run(main())
