"""Measures how soon a freed permit of a semaphore is taken again: 200 callers in four processes wait for five permits.

The unit is a round trip to the servers. A release takes half of one to reach them, and its notification half of one to
reach the waiting callers. `make bench-freed` prints Markdown.
"""

import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from servers import links, servers

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from tests.cross.agents import Agent, program  # noqa: E402  (it needs the path)

FORMS = ("tasks", "threads", "promises", "promises")
CALLERS, PERMITS, TTL_MS, ROUNDS = 50, 5, 10_000, 5
#: Round trips in ms. The loopback adds less than 0.1 ms.
TRIPS = (5.0, 20.0)


def gaps(nodes: list[str], round_trip_ms: float) -> Iterator[float]:
    """Yields the time from each notification of a release to the hold that follows it, in ms."""
    with ExitStack() as stack:
        holder = stack.enter_context(Agent("rust", nodes))
        semaphore = {"name": "pool", "limit": PERMITS, "permits": PERMITS}
        holder.must("acquire", **semaphore, ttl_ms=60_000, wait_ms=0)
        crowds = [
            stack.enter_context(program(form, nodes, "pool", CALLERS, TTL_MS, PERMITS))
            for form in FORMS
        ]
        for crowd in crowds:
            assert crowd.receive()["waiting"] == CALLERS
        holder.must("release")
        holds = [hold for crowd in crowds for hold in crowd.rest()]
    assert len(holds) == CALLERS * len(FORMS)
    begins, ends = (sorted(hold[edge] for hold in holds) for edge in ("at", "until"))
    # The hold number n + 5 begins with a permit that was freed as number n, or earlier.
    for begin, end in zip(begins[PERMITS:], ends, strict=False):
        yield (begin - end) / 1e6 - round_trip_ms


def main() -> None:
    (HERE / "out").mkdir(exist_ok=True)
    compiler = ["cc", "-O2", "-Wall", "-Wextra", "-pthread"]
    subprocess.run([*compiler, "-o", HERE / "out" / "link", HERE / "link.c"], check=True)
    print("| servers, round trip | median | quartiles | 90th percentile |")
    print("|---|---|---|---|")
    for count in (1, 5):
        for trip in TRIPS:
            found: list[float] = []
            for _ in range(ROUNDS):
                with servers(count) as nodes, links([it.port for it in nodes], trip) as ports:
                    found += gaps([f"redis://127.0.0.1:{port}" for port in ports], trip)
            cut = [value / trip for value in statistics.quantiles(found, n=20)]
            row = f"{cut[9]:.2f} | {cut[4]:.2f} and {cut[14]:.2f} | {cut[17]:.2f}"
            print(f"| {count}, {trip:g} ms | {row} |", flush=True)


main()
