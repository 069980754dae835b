"""Holds of agents while servers are killed."""

import os
import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from tests.servers import Server

from .agents import LANGUAGES, Agent, now

#: How long servers are killed, in seconds.
DURATION = float(os.environ.get("OUTAGES_S", "40"))


class Hold(NamedTuple):
    """From the grant to the last time at which the agent certainly held the lock, in nanoseconds."""

    options: dict[str, Any]
    begin: int
    end: int
    fencing_token: int | None


def holds_while_servers_are_killed(
    options: "Callable[[random.Random], dict[str, Any]]",
) -> list[Hold]:
    """Kills any two of five servers in turn, while six agents in three languages acquire a lock with these options."""
    servers = [Server() for _ in range(5)]
    urls = [server.url for server in servers]
    # Killed servers lose their data, and grant nothing new for 2.5 seconds.
    agents = [Agent(language, urls, guard_ms=2500) for language in LANGUAGES * 2]
    end = time.monotonic() + DURATION

    def holds_of(agent: Agent, number: int) -> list[Hold]:
        found: list[Hold] = []
        chance = random.Random(number)
        while time.monotonic() < end:
            own = options(chance)
            reply = agent.ask("acquire", **own, ttl_ms=2000, wait_ms=5000)
            if not reply["ok"]:
                continue
            time.sleep(0.005)
            held, until = agent.must("held"), now()
            if held["held"]:
                found.append(Hold(own, reply["at"], until, reply.get("fencing_token")))
            agent.ask("release")
        return found

    try:
        with ThreadPoolExecutor(len(agents)) as pool:
            running = [pool.submit(holds_of, agent, at) for at, agent in enumerate(agents)]
            while time.monotonic() < end:
                killed = random.sample(servers, 2)
                for server in killed:
                    server.kill()
                    time.sleep(1)
                for server in killed:
                    server.restart()
                # Longer than the guard, so that they vote again.
                time.sleep(3)
            return [hold for holds in running for hold in holds.result()]
    finally:
        for agent in agents:
            agent.kill()
        for server in servers:
            server.close()
