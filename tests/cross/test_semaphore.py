"""Processes in any of the three languages share the permits of a semaphore, on one node and on five.

The pairs of a test run at the same time, each with its own name.
"""

import uuid

import pytest

from .agents import Agent, now
from .outages import holds_while_servers_are_killed
from .pairs import NEXT_LANGUAGE, every_pair

TTL_MS = 8000


def test_permits_are_shared_and_released_to_the_waiter(nodes: list[str]) -> None:
    def scenario(one: Agent, two: Agent, name: str) -> None:
        pool = {"name": name, "ttl_ms": TTL_MS, "limit": 3}
        first = one.must("acquire", **pool, permits=2, wait_ms=0)
        assert len(first["keys"]) == 2, first
        refused = two.ask("acquire", **pool, permits=2, wait_ms=0)
        assert refused["code"] == "timeout", refused
        assert "only 1 of 3 permits is free, and 2 are needed" in refused["message"], refused
        second = two.must("try", **pool)
        assert {*first["keys"], *second["keys"]} == {f"{{lock:{name}}}#{at}" for at in range(3)}
        found = one.must("inspect", **pool)
        assert (found["held"], found["taken"], found["limit"]) == (True, 3, 3)
        two.must("release")
        two.send("acquire", **pool, permits=3, wait_ms=None)
        assert two.silent_for(0.2), "more permits than the limit"
        asked = now()
        one.must("release")
        third = two.receive()
        assert third["ok"], third
        assert third["at"] > asked, "acquired before the release"
        # A lock of the same name is independent.
        one.must("acquire", name=name, ttl_ms=TTL_MS, wait_ms=0)

    every_pair(nodes, scenario)


@pytest.mark.slow("a ttl of eight seconds that ends")
def test_permit_of_a_killed_holder_expires(nodes: list[str]) -> None:
    def scenario(one: Agent, two: Agent, name: str) -> None:
        pool = {"name": name, "ttl_ms": TTL_MS, "limit": 2}
        one.must("acquire", **pool, permits=2, wait_ms=0)
        two.send("acquire", **pool, wait_ms=None)
        killed = one.kill()
        waited = (two.receive()["at"] - killed) / 1e6
        assert TTL_MS * 0.6 < waited < TTL_MS + 1000, f"waited {waited} ms"

    every_pair(nodes, scenario, NEXT_LANGUAGE)


@pytest.mark.slow("real servers are killed for a while")
def test_limit_holds_while_servers_are_killed() -> None:
    """Agents in three languages take permits of three."""
    limit, name = 3, f"kill-{uuid.uuid4().hex[:8]}"
    found = holds_while_servers_are_killed(lambda _: {"name": name, "limit": limit})
    edges = sorted([(hold.begin, 1) for hold in found] + [(hold.end, -1) for hold in found])
    holders = most = 0
    for _, step in edges:
        holders += step
        most = max(most, holders)
    assert most <= limit, f"{most} holders of {limit} permits"
    assert len(found) > 100, f"only {len(found)} holds"
