"""Processes in any of the three languages share a read/write lock, on one node and on five.

The pairs of a test run at the same time, each with its own name.
"""

import itertools
import random
import uuid

import pytest

from .agents import Agent, HoldPeriod, now
from .outages import holds_while_servers_are_killed
from .pairs import NEXT_LANGUAGE, every_pair

TTL_MS = 8000


def test_readers_share_and_a_writer_waits_for_the_last(nodes: list[str]) -> None:
    def scenario(one: Agent, two: Agent, name: str) -> None:
        read, write = [{"name": name, "ttl_ms": TTL_MS, "side": side} for side in ("read", "write")]
        one.must("acquire", **read, wait_ms=0)
        two.must("acquire", **read, wait_ms=0)
        assert one.must("inspect", **write)["mode"] == "read"
        one.must("release")
        for lock in (write, {"name": name, "ttl_ms": TTL_MS}):
            refused = one.ask("acquire", **lock, wait_ms=0)
            assert refused["code"] == "timeout", refused
            assert "readers hold it. The last one ends in at most" in refused["message"], refused
        one.send("acquire", **write, wait_ms=None, fencing=True)
        assert one.silent_for(0.2), "a writer beside a reader"
        asked = now()
        two.must("release")
        granted = one.receive()
        assert granted["at"] > asked, "acquired before the release"
        assert granted["fencing_token"] > 0, granted
        assert two.must("inspect", **read)["mode"] == "write"
        refused = two.ask("acquire", **read, wait_ms=0)
        assert "a writer holds it, and expires in" in refused["message"], refused
        two.send("acquire", **read, wait_ms=None)
        one.must("release")
        assert two.receive()["ok"]

    every_pair(nodes, scenario)


@pytest.mark.slow("a ttl of eight seconds that ends")
def test_reader_of_a_killed_process_expires(nodes: list[str]) -> None:
    def scenario(one: Agent, two: Agent, name: str) -> None:
        read, write = [{"name": name, "ttl_ms": TTL_MS, "side": side} for side in ("read", "write")]
        one.must("acquire", **read, wait_ms=0)
        two.send("acquire", **write, wait_ms=None)
        killed = one.kill()
        waited = (two.receive()["at"] - killed) / 1e6
        # The key lives for up to a second longer than the last reader.
        assert TTL_MS * 0.6 < waited < TTL_MS + 2000, f"waited {waited} ms"

    every_pair(nodes, scenario, NEXT_LANGUAGE)


def overlaps(found: list[tuple[str, HoldPeriod]]) -> list[str]:
    """Returns each hold that began while a writer had the lock, or of a writer that began while anyone had it."""
    wrong, edges = [], []
    for side, (begin, end, _) in found:
        edges += [(begin, 1, side), (end, 0, side)]
    held = {"read": 0, "write": 0}
    for at, begins, side in sorted(edges):
        if begins and (held["write"] or (side == "write" and held["read"])):
            wrong.append(f"{side} at {at} beside {held}")
        held[side] += 1 if begins else -1
    return wrong


def test_overlap_is_noticed() -> None:
    assert overlaps([("read", (1, 5, "")), ("read", (2, 6, "")), ("write", (6, 7, ""))]) == []
    assert overlaps([("read", (1, 5, "")), ("write", (4, 7, ""))])
    assert overlaps([("write", (1, 5, "")), ("write", (4, 7, ""))])
    assert overlaps([("write", (1, 5, "")), ("read", (4, 7, ""))])


@pytest.mark.slow("real servers are killed for a while")
def test_writers_are_alone_while_servers_are_killed() -> None:
    """Agents in three languages read and write. The fencing tokens of writers increase."""
    name = f"kill-{uuid.uuid4().hex[:8]}"

    def options(chance: random.Random) -> dict[str, object]:
        side = chance.choice(["read", "read", "write"])
        return {"name": name, "side": side, "fencing": side == "write"}

    holds = holds_while_servers_are_killed(options)
    found = [(hold.options["side"], (hold.begin, hold.end, "")) for hold in holds]
    assert overlaps(found) == []
    for side in ("read", "write"):
        assert sum(of == side for of, _ in found) > 50, f"few holds of {side}: {len(found)} in all"
    writes = sorted(
        (hold for hold in holds if hold.options["side"] == "write"), key=lambda hold: hold.begin
    )
    tokens = [hold.fencing_token or 0 for hold in writes]
    assert all(one < two for one, two in itertools.pairwise(tokens)), tokens
