"""A holder that is cut off from its nodes is told before anybody else can have the lock."""

import statistics
import time
from contextlib import ExitStack

from .agents import Agent
from .proxy import Proxy
from .servers import Server

RUNS = 20
TTL_MS = 5000
# What the holder takes off its ttl: 1 % and 2 ms.
DRIFT_MS = TTL_MS * 0.01 + 2


def test_cut_off_holder_is_told_first(five: list[Server], name: str) -> None:
    with ExitStack() as stack:
        proxies = [stack.enter_context(Proxy(server)) for server in five]
        direct = [server.url for server in five]
        behind = [proxy.url for proxy in proxies]
        holders = [stack.enter_context(Agent("rust", behind)) for _ in range(RUNS)]
        contenders = [stack.enter_context(Agent("rust", direct)) for _ in range(RUNS)]
        for run, holder in enumerate(holders):
            holder.must("acquire", name=f"{name}-{run}", ttl_ms=TTL_MS, wait_ms=2000)
            time.sleep(0.1)  # so that each one is cut off at another moment of its renewal
        for run, (holder, contender) in enumerate(zip(holders, contenders, strict=True)):
            contender.send("acquire", name=f"{name}-{run}", ttl_ms=TTL_MS, wait_ms=None)
            holder.send("lost", timeout_ms=4 * TTL_MS)
        for contender in contenders:
            assert contender.silent_for(0.01)
        for proxy in proxies:
            proxy.blackhole = True
        margins = [
            (contender.receive()["at"] - holder.receive()["at"]) / 1e6
            for holder, contender in zip(holders, contenders, strict=True)
        ]
    print("margins in ms:", [round(margin, 1) for margin in sorted(margins)])
    assert min(margins) > 0, margins
    assert statistics.median(margins) >= DRIFT_MS - 5, margins
