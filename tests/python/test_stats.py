"""The statistics of a client. An unnamed node in memory belongs to one client only."""

import multiprocessing
from collections.abc import Callable
from typing import Any

import pytest
import redlock

from tests.waiting import eventually

Call = Callable[..., Any]


@pytest.mark.filterwarnings("ignore:.*not reentrant")
def test_stats_count_every_outcome(client: redlock.Redlock, name: str, call: Call) -> None:
    before = client.stats()
    lock = client.lock(name, ttl=0.6, renew=False)
    lease = call(lock, "acquire")
    assert call(lock, "try_acquire") is None
    with pytest.raises(redlock.LockTimeout):
        call(lock, "acquire", wait=0.1)
    assert client.stats().held == before.held + 1
    call(lease, "release")
    expires = call(lock, "acquire")
    eventually(lambda: not expires.held)
    eventually(lambda: client.stats().lost["expired"] > before.lost["expired"])
    after = client.stats()
    for field, more in {"granted": 2, "refused": 1, "timed_out": 1, "released": 1}.items():
        assert getattr(after, field) - getattr(before, field) == more, field
    assert after.lost["expired"] - before.lost["expired"] == 1
    assert after.time_waited - before.time_waited >= 0.1
    assert after.time_held - before.time_held >= 0.1
    assert (after.waiting, after.unavailable) == (0, 0)
    assert f"granted={after.granted}, refused={after.refused}" in repr(after)
    with pytest.raises(AttributeError):
        after.granted = 0  # type: ignore[misc]


def in_child(client: redlock.Redlock, results: Any) -> None:
    results.put(client.stats().granted)


def test_stats_of_a_forked_child_start_at_zero(name: str) -> None:
    client = redlock.Redlock("memory://")
    client.lock(name).acquire().release()
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    child = context.Process(target=in_child, args=(client, results))
    child.start()
    assert results.get(timeout=20) == 0
    child.join(20)
    assert client.stats().granted == 1
