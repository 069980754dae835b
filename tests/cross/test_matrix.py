"""Two processes in any of the three languages exclude each other, on one node and on five.

The nine pairs of a test run at the same time, each with its own name.
"""

import time

import pytest

from .agents import Agent, now
from .pairs import every_pair

SECOND = 1_000_000_000
# Long enough for a busy machine to renew in time, and short enough to wait for its end.
TTL_MS = 5000


def test_released_to_the_waiter(nodes: list[str]) -> None:
    def scenario(holder: Agent, contender: Agent, name: str) -> None:
        first = holder.must("acquire", name=name, ttl_ms=TTL_MS, wait_ms=0)
        refused = contender.ask("try", name=name, ttl_ms=TTL_MS)
        assert refused["code"] == "held", refused
        contender.send("acquire", name=name, ttl_ms=TTL_MS, wait_ms=None)
        assert contender.silent_for(0.2), "two holders: acquired while another held it"
        asked = now()
        holder.must("release")
        second = contender.receive()
        assert second["ok"], second
        assert second["at"] > asked, "acquired before the release"
        assert second["token"] != first["token"]
        assert contender.must("held")["held"]

    every_pair(nodes, scenario)


@pytest.mark.slow("a ttl of five seconds that is renewed, and then ends")
def test_killed_holder_is_followed_within_its_ttl(nodes: list[str]) -> None:
    ttl = TTL_MS * 1_000_000

    def scenario(holder: Agent, contender: Agent, name: str) -> None:
        holder.must("acquire", name=name, ttl_ms=TTL_MS, wait_ms=0)
        contender.send("acquire", name=name, ttl_ms=TTL_MS, wait_ms=None)
        # Longer than one TTL, so that only renewal keeps the contender out.
        assert contender.silent_for(TTL_MS / 1000 + 1), (
            "two holders: acquired while another held it"
        )
        assert holder.must("held")["held"]
        killed = holder.kill()
        waited = contender.receive()["at"] - killed
        assert 0.6 * ttl <= waited <= ttl + SECOND, f"waited {waited / SECOND:.3f} s"

    every_pair(nodes, scenario)


def test_wait_elapses(nodes: list[str]) -> None:
    def scenario(holder: Agent, contender: Agent, name: str) -> None:
        holder.must("acquire", name=name, ttl_ms=TTL_MS, wait_ms=0)
        for wait_ms in (0, 700):
            began = time.monotonic()
            refused = contender.ask("acquire", name=name, ttl_ms=TTL_MS, wait_ms=wait_ms)
            took = time.monotonic() - began
            assert refused["code"] == "timeout", refused
            assert f"lock:{name}" in refused["message"], refused
            assert wait_ms / 1000 - 0.05 <= took, f"took {took:.3f} s"
        assert holder.must("held")["held"]
        holder.must("release")
        contender.must("acquire", name=name, ttl_ms=TTL_MS, wait_ms=1000)

    every_pair(nodes, scenario)
