"""The statistics of a client."""

import multiprocessing
from typing import Any

import pytest
import redlock


def test_stats_cannot_be_changed() -> None:
    stats = redlock.Redlock("memory://").stats()
    assert "granted=0, refused=0" in repr(stats)
    with pytest.raises(AttributeError):
        stats.granted = 1  # type: ignore[misc]


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
