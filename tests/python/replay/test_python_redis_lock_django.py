"""python-redis-lock 4.0.1: tests/test_django_integration.py."""

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redlock

from .cases import Source
from .test_python_redis_lock import nobody_resets_all

Call = Callable[..., Any]
THEIRS = Source("python-redis-lock", {"tests/test_django_integration.py": 3})
asks = THEIRS.asks


@asks("reset_all")
def test_reset_all(ours: redlock.Redlock, another: redlock.Redlock, name: str) -> None:
    nobody_resets_all(ours, another, name)


@asks("django")
def test_django_works(r: Any, name: str, within: Call) -> None:
    # The result of `get_client()` of django-redis' cache.
    with redlock.Redlock.from_client(r, key_prefix="") as client:
        assert within(client.lock(name), lambda lease: r.get(name) == lease.token)


@asks("django")
def test_django_add_or_set_locked(
    ours: redlock.Redlock, another: redlock.Redlock, name: str
) -> None:
    cache: dict[str, int] = {}

    def get_or_set(client: redlock.Redlock, make: Callable[[], int]) -> int:
        with client.lock(name, wait=20):
            if name not in cache:
                cache[name] = make()
            return cache[name]

    def none() -> int:
        raise ValueError("no value")

    with pytest.raises(ValueError, match="no value"):
        get_or_set(ours, none)
    numbers = itertools.count()
    with ThreadPoolExecutor(10) as pool:
        who = (ours, another) * 5
        made = [pool.submit(get_or_set, client, lambda: next(numbers)) for client in who]
        assert {each.result() for each in made} == {0}
