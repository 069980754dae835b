"""Three hosts start the same scheduled job by their own clocks, one host per language. It runs once."""

import time
import uuid

import pytest

from .agents import LANGUAGES, Agent

#: Offset between the clocks of consecutive hosts.
SKEW = 0.4
MIN_HOLD_MS = 3000
TTL_MS = 8000


@pytest.mark.slow("three hosts whose clocks differ, and a tick of three seconds")
def test_min_hold_runs_a_job_once_on_three_hosts(nodes: list[str]) -> None:
    name = f"tick-{uuid.uuid4().hex[:8]}"
    hosts = [Agent(language, nodes) for language in LANGUAGES]
    try:
        for turn in range(len(hosts)):
            # A different host is first each time.
            ran, begun = [], time.monotonic()
            for host in hosts[turn:] + hosts[:turn]:
                reply = host.ask("try", name=name, ttl_ms=TTL_MS, min_hold_ms=MIN_HOLD_MS)
                if reply["ok"]:
                    # The job takes no time at all.
                    host.must("release")
                    assert not host.must("held")["held"]
                    ran.append(host.language)
                else:
                    assert reply["code"] == "held", reply
                time.sleep(SKEW)
            assert ran == [hosts[turn].language]
            # A waiter gets the next run, and not before its time.
            waiter = hosts[turn - 1]
            waiter.must("acquire", name=name, ttl_ms=TTL_MS, wait_ms=None)
            after = time.monotonic() - begun
            assert MIN_HOLD_MS * 0.99 <= after * 1000 < TTL_MS, f"{after:.3f} s"
            waiter.must("release")
    finally:
        for host in hosts:
            host.kill()
