"""Three hosts that start the same tick by clocks of their own, a host per language: it runs once."""

import time
import uuid

import pytest

from .agents import LANGUAGES, Agent

#: How far apart the hosts' clocks are: each comes so much after the one before.
SKEW = 0.4
MIN_HOLD_MS = 3000
TTL_MS = 8000


@pytest.mark.slow("three hosts whose clocks differ, and a tick of three seconds")
def test_three_hosts_one_tick_one_run(nodes: list[str]) -> None:
    name = f"tick-{uuid.uuid4().hex[:8]}"
    hosts = [Agent(language, nodes) for language in LANGUAGES]
    try:
        for turn in range(len(hosts)):
            # Another one is the first of them each time.
            ran, begun = [], time.monotonic()
            for host in hosts[turn:] + hosts[:turn]:
                reply = host.ask("try", name=name, ttl_ms=TTL_MS, min_hold_ms=MIN_HOLD_MS)
                if reply["ok"]:
                    # Its work takes no time at all.
                    host.must("release")
                    assert not host.must("held")["held"]
                    ran.append(host.language)
                else:
                    assert reply["code"] == "held", reply
                time.sleep(SKEW)
            assert ran == [hosts[turn].language]
            # Whoever waits has the next tick, and not before its time.
            waiter = hosts[turn - 1]
            waiter.must("acquire", name=name, ttl_ms=TTL_MS, wait_ms=None)
            after = time.monotonic() - begun
            assert MIN_HOLD_MS * 0.99 <= after * 1000 < TTL_MS, f"{after:.3f} s"
            waiter.must("release")
    finally:
        for host in hosts:
            host.kill()
