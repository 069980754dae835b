"""Two hundred callers wait in four processes when the holder dies. Each acquires, one at a time, soon after the TTL."""

from contextlib import ExitStack

import pytest

from tests.servers import Server

from .agents import Agent, assert_no_overlap, now, program

CROWDS = ("tasks", "threads", "promises", "promises")
CALLERS = 50
TTL_MS = 1500


@pytest.mark.parametrize("count", [1, 5])
@pytest.mark.slow("200 waiters, and a ttl that ends")
def test_all_are_served_after_a_crash(count: int, five: list[Server], name: str) -> None:
    nodes = [server.url for server in five[:count]]
    with ExitStack() as stack:
        holder = stack.enter_context(Agent("rust", nodes))
        holder.must("acquire", name=name, ttl_ms=TTL_MS, wait_ms=0)
        crowds = [stack.enter_context(program(form, nodes, name, CALLERS, 5000)) for form in CROWDS]
        for crowd in crowds:
            assert crowd.receive()["waiting"] == CALLERS
        killed = holder.kill()
        lives = max(server.command("PTTL", f"lock:{name}") for server in five[:count])
        ends = now() + lives * 1_000_000
        hold_periods = [
            (hold["at"], hold["until"], f"{form} {crowd.process.pid}")
            for form, crowd in zip(CROWDS, crowds, strict=True)
            for hold in crowd.rest()
        ]
    assert len(hold_periods) == CALLERS * len(CROWDS)
    assert_no_overlap(hold_periods)
    assert min(hold_periods)[0] > killed
    took = (max(hold_periods)[1] - ends) / 1e9
    print(f"\n200 waiters in 4 processes over {count}: all served {took:.2f} s after the ttl")
    assert took < 10
