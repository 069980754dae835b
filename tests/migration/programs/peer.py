"""A holder with another Python lock library that reads one command per line on stdin and writes one reply per line on
stdout.

See ../README.md. Each library is imported where it is used, because no environment has them all.
"""

import asyncio
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import redis

PAUSE = 0.1
#: Releases the lock. Raises or returns False if this process does not hold it any more.
Release = Callable[[], object]


class Library(Protocol):
    def __call__(self, name: str, ttl: float, wait: float) -> Release | None: ...


def redis_py(urls: list[str]) -> Library:
    client = redis.Redis.from_url(urls[0])

    def acquire(name: str, ttl: float, wait: float) -> Release | None:
        """Acquires the lock. A TTL of 0 is the library's default: none."""
        lock = client.lock(name, timeout=ttl or None, sleep=PAUSE, blocking_timeout=wait)
        return lock.release if lock.acquire() else None

    return acquire


def redis_py_asyncio(urls: list[str]) -> Library:
    run = asyncio.Runner().run
    client = redis.asyncio.Redis.from_url(urls[0])

    def acquire(name: str, ttl: float, wait: float) -> Release | None:
        lock = client.lock(name, timeout=ttl, sleep=PAUSE, blocking_timeout=wait)

        async def release() -> None:
            await lock.release()

        return (lambda: run(release())) if run(lock.acquire()) else None

    return acquire


def redlock_py(urls: list[str]) -> Library:
    from redlock import Redlock

    def acquire(name: str, ttl: float, wait: float) -> Release | None:
        manager = Redlock(urls, retry_count=1 + int(wait / PAUSE), retry_delay=PAUSE)
        lock = manager.lock(name, int(ttl * 1000))
        return partial(manager.unlock, lock) if lock else None

    return acquire


def pottery(urls: list[str]) -> Library:
    from pottery import Redlock

    masters = {redis.Redis.from_url(url) for url in urls}

    def acquire(name: str, ttl: float, wait: float) -> Release | None:
        lock = Redlock(key=name, masters=masters, auto_release_time=ttl)
        options: dict[str, Any] = {"timeout": wait} if wait else {"blocking": False}
        return lock.release if lock.acquire(**options) else None

    return acquire


def python_redis_lock(urls: list[str]) -> Library:
    import redis_lock

    client = redis.StrictRedis.from_url(urls[0])

    def acquire(name: str, ttl: float, wait: float) -> Release | None:
        lock = redis_lock.Lock(client, name, expire=int(ttl))
        options: dict[str, Any] = {"timeout": int(wait)} if wait else {"blocking": False}
        return lock.release if lock.acquire(**options) else None

    return acquire


LIBRARIES = {
    "redis-py": redis_py,
    "redis-py-asyncio": redis_py_asyncio,
    "redlock-py": redlock_py,
    "pottery": pottery,
    "python-redis-lock": python_redis_lock,
}


def main() -> None:
    acquire = LIBRARIES[sys.argv[1]](sys.argv[2].split(","))
    release: Release | None = None
    print("ready", flush=True)
    for line in sys.stdin:
        verb, *words = line.split()
        answer = "yes"
        try:
            if verb == "acquire":
                name, ttl, wait = words
                release = acquire(name, int(ttl) / 1000, int(wait) / 1000)
                answer = "yes" if release else "no it is held"
            else:
                assert release is not None, "release what?"
                release()
        except Exception as error:
            answer = f"no {type(error).__name__}: {error}"
        print(answer.replace("\n", " "), flush=True)


main()
