"""Two hundred callers wait in four processes: for a lock whose holder dies, and for the permits of a semaphore.

`make bench-freed` measures how soon a freed permit is taken.
"""

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


@pytest.mark.parametrize("count", [1, 5])
@pytest.mark.slow("200 waiters, each of which holds a permit for a while")
def test_all_are_served_with_permits(count: int, five: list[Server], name: str) -> None:
    nodes, permits = [server.url for server in five[:count]], 5
    with ExitStack() as stack:
        holder = stack.enter_context(Agent("rust", nodes))
        all_of_them = {"name": name, "limit": permits, "permits": permits}
        holder.must("acquire", **all_of_them, ttl_ms=60_000, wait_ms=0)
        crowds = [
            stack.enter_context(program(form, nodes, name, CALLERS, 5000, permits))
            for form in CROWDS
        ]
        for crowd in crowds:
            assert crowd.receive()["waiting"] == CALLERS
        freed = now()
        holder.must("release")
        holds = [hold for crowd in crowds for hold in crowd.rest()]
    assert len(holds) == CALLERS * len(CROWDS)
    assert min(hold["at"] for hold in holds) > freed
    begins, ends = (sorted(hold[edge] for hold in holds) for edge in ("at", "until"))
    # The permit that is taken as number n + 5 was freed as number n, or earlier.
    gaps = [begin - end for begin, end in zip(begins[permits:], ends, strict=False)]
    assert min(gaps) > 0, f"more than {permits} holders"
