"""Two processes, each in any of the three languages, exclude each other, on one node and on five.

The nine pairs of a test run at once, on a name each.
"""

import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import pytest

from .agents import LANGUAGES, Agent, now
from .servers import Server

SECOND = 1_000_000_000
# Long enough for a busy machine to renew in time, short enough to wait for its end.
TTL_MS = 5000
Scene = Callable[[Agent, Agent, str], None]


def every_pair(nodes: list[str], scene: Scene) -> None:
    """Plays the scene with all nine pairs and reports each one that fails."""

    def play(pair: tuple[str, str]) -> str | None:
        name = f"{'-'.join(pair)}-{uuid.uuid4().hex[:8]}"
        try:
            with Agent(pair[0], nodes) as holder, Agent(pair[1], nodes) as contender:
                scene(holder, contender, name)
        except Exception as error:
            return f"{pair[0]} holds, {pair[1]} contends: {error!r}"
        return None

    pairs = list(product(LANGUAGES, LANGUAGES))
    with ThreadPoolExecutor(len(pairs)) as pool:
        failures = [failure for failure in pool.map(play, pairs) if failure]
    assert not failures, "\n".join(failures)


@pytest.fixture(params=[1, 5], ids=["one-node", "five-nodes"])
def nodes(request: pytest.FixtureRequest, five: list[Server]) -> list[str]:
    return [server.url for server in five[: request.param]]


def test_released_to_the_waiter(nodes: list[str]) -> None:
    def scene(holder: Agent, contender: Agent, name: str) -> None:
        first = holder.must("acquire", name=name, ttl_ms=TTL_MS, wait_ms=0)
        refused = contender.ask("try", name=name, ttl_ms=TTL_MS)
        assert refused["code"] == "held", refused
        contender.send("acquire", name=name, ttl_ms=TTL_MS, wait_ms=None)
        assert contender.silent_for(0.5), "acquired while another held it"
        asked = now()
        released = holder.must("release")
        second = contender.receive()
        assert second["ok"], second
        assert second["at"] > asked, "acquired before the release"
        assert second["at"] < released["at"] + 3 * SECOND, "the release was noticed too late"
        assert second["token"] != first["token"]
        assert contender.must("held")["held"]

    every_pair(nodes, scene)


def test_killed_holder_is_followed_within_its_ttl(nodes: list[str]) -> None:
    ttl = TTL_MS * 1_000_000

    def scene(holder: Agent, contender: Agent, name: str) -> None:
        holder.must("acquire", name=name, ttl_ms=TTL_MS, wait_ms=0)
        contender.send("acquire", name=name, ttl_ms=TTL_MS, wait_ms=None)
        # Beyond one ttl, so that renewal is what keeps the contender out.
        assert contender.silent_for(TTL_MS / 1000 + 1), "acquired while another held it"
        assert holder.must("held")["held"]
        killed = holder.kill()
        waited = contender.receive()["at"] - killed
        assert 0.6 * ttl <= waited <= ttl + SECOND, f"waited {waited / SECOND:.3f} s"

    every_pair(nodes, scene)


def test_wait_elapses(nodes: list[str]) -> None:
    def scene(holder: Agent, contender: Agent, name: str) -> None:
        holder.must("acquire", name=name, ttl_ms=TTL_MS, wait_ms=0)
        for wait_ms in (0, 700):
            began = time.monotonic()
            refused = contender.ask("acquire", name=name, ttl_ms=TTL_MS, wait_ms=wait_ms)
            took = time.monotonic() - began
            assert refused["code"] == "timeout", refused
            assert f"lock:{name}" in refused["message"], refused
            assert wait_ms / 1000 - 0.05 <= took <= wait_ms / 1000 + 3, f"took {took:.3f} s"
        assert holder.must("held")["held"]
        holder.must("release")
        contender.must("acquire", name=name, ttl_ms=TTL_MS, wait_ms=1000)

    every_pair(nodes, scene)


def test_attach_in_another_language(nodes: list[str]) -> None:
    def scene(holder: Agent, contender: Agent, name: str) -> None:
        first = holder.must("acquire", name=name, ttl_ms=TTL_MS, wait_ms=0)
        second = contender.must("attach", name=name, token=first["token"], ttl_ms=TTL_MS)
        assert second["token"] == first["token"]
        contender.must("extend", ttl_ms=2 * TTL_MS)
        contender.must("release")
        stranger = contender.ask("attach", name=name, token="0" * 32, ttl_ms=TTL_MS)
        assert stranger["code"] == "lost", stranger

    every_pair(nodes, scene)
