"""Many processes contend for one name and are killed and frozen at random. No two hold it at the same time.

A hold period lasts from the return of the acquire to the last time at which `held` was still true, on CLOCK_BOOTTIME.
No two hold periods may overlap, whatever happened to the processes.
"""

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.servers import Server

from .agents import LANGUAGES, Agent, HoldPeriod, assert_no_overlap, now

SECONDS = 15
TTL_MS = 600


class Worker:
    """Runs one agent after the other. Each acquires, releases, and is sometimes killed or frozen."""

    def __init__(self, language: str, nodes: list[str], name: str, seed: int) -> None:
        self.language, self.nodes, self.name = language, nodes, name
        self.random = random.Random(seed)
        self.hold_periods: list[HoldPeriod] = []
        self.done = threading.Event()

    def run(self) -> list[HoldPeriod]:
        while not self.done.is_set():
            with Agent(self.language, self.nodes) as agent:
                while not self.done.is_set() and self.turn(agent):
                    pass
        return self.hold_periods

    def turn(self, agent: Agent) -> bool:
        """Runs one hold period. Returns false if the agent did not survive it."""
        reply = agent.ask("acquire", name=self.name, ttl_ms=TTL_MS, wait_ms=2000)
        if not reply["ok"]:
            assert reply["code"] == "timeout", reply
            return True
        fate = self.random.random()
        last = self.watch(agent, reply["at"], self.random.uniform(0, 0.05))
        if fate < 0.15:
            agent.pause()
            time.sleep(self.random.uniform(0.1, 2.5 * TTL_MS / 1000))
            agent.resume()
            last = self.watch(agent, last, 0.02)
        self.hold_periods.append((reply["at"], last, f"{self.language} {agent.process.pid}"))
        if fate > 0.92:
            agent.kill()
            return False
        released = agent.ask("release")
        assert released["ok"] or released["code"] == "lost", released
        return True

    def watch(self, agent: Agent, last: int, seconds: float) -> int:
        """Returns the last time at which the agent certainly held the lock."""
        end = time.monotonic() + seconds
        while True:
            # A lease that was lost is never held again. So if it is held in the reply, it was held at this time.
            before = now()
            if not agent.must("held")["held"]:
                return last
            last = max(last, before)
            if time.monotonic() > end:
                return last


@pytest.mark.parametrize("count", [1, 5])
@pytest.mark.slow("processes are killed and frozen for 15 seconds")
def test_holders_never_overlap(count: int, five: list[Server], name: str) -> None:
    nodes = [server.url for server in five[:count]]
    workers = [Worker(language, nodes, name, seed) for seed, language in enumerate(LANGUAGES * 2)]
    with ThreadPoolExecutor(len(workers)) as pool:
        running = [pool.submit(worker.run) for worker in workers]
        time.sleep(SECONDS)
        for worker in workers:
            worker.done.set()
        hold_periods = [hold_period for future in running for hold_period in future.result()]
    assert_no_overlap(hold_periods)
    assert len(hold_periods) > 20, f"only {len(hold_periods)} hold periods: too few for a result"
    assert {who.split()[0] for _, _, who in hold_periods} == set(LANGUAGES)
