"""A holder whose clocks are slewed back, as NTP may do by a twelfth, is notified before another client has the lock."""

import time
from contextlib import ExitStack

import pytest

from tests.servers import Server

from .agents import LANGUAGES, Agent
from .proxy import Proxy

TTL_MS = 3000


def notified_and_acquired(holder: Agent, contender: Agent) -> tuple[float, float]:
    """Returns when each replied, by this process's clock, because the holder's own clock is wrong."""
    at: dict[Agent, float] = {}
    while len(at) < 2:
        for agent in (holder, contender):
            if agent not in at and not agent.silent_for(0.001):
                at[agent] = time.monotonic()
                assert agent.receive()["ok"]
    return at[holder], at[contender]


def late(
    language: str, direct: list[str], via: list[Server], clock_library: str, name: str
) -> float:
    """Returns how much later the holder was notified than the contender acquired."""
    slewed = {"LD_PRELOAD": clock_library, "SLEWED": "1"}
    with ExitStack() as stack:
        proxies = [stack.enter_context(Proxy(server)) for server in via]
        behind = [proxy.url for proxy in proxies] + direct[len(proxies) :]
        holder = stack.enter_context(Agent(language, behind, env=slewed))
        contender = stack.enter_context(Agent("rust", direct))
        holder.must("acquire", name=name, ttl_ms=TTL_MS, wait_ms=1000)
        for proxy in proxies:
            proxy.blackhole = True
        contender.send("acquire", name=name, ttl_ms=TTL_MS, wait_ms=None)
        holder.send("lost", timeout_ms=4 * TTL_MS)
        notified, taken = notified_and_acquired(holder, contender)
        return notified - taken


@pytest.mark.parametrize("count", [1, 5])
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.slow("slewed clocks, and ttls that end")
def test_holder_with_a_slow_clock_is_notified_first(
    language: str, count: int, five: list[Server], clock_library: str
) -> None:
    direct = [server.url for server in five[:count]]
    via = five[: count // 2 + 1]
    found: list[float] = []
    # A process that a busy machine delays is late sometimes. A process that uses the slow clock is late every time.
    while len(found) < 3 and (not found or found[-1] >= 0):
        name = f"slewed-{language}-{count}-{len(found)}"
        found.append(late(language, direct, via, clock_library, name))
    assert found[-1] < 0, f"notified this many seconds after another client acquired it: {found}"
