"""Fencing tokens over five real servers grow from holder to holder, whatever the clients' clocks show.

RUNS is the number of handoffs. `make soak-fencing` makes many.
"""

import hashlib
import itertools
import os
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import NamedTuple

import pytest

from tests.servers import Server

from .agents import ROOT, Agent

RUNS = int(os.environ.get("RUNS", "500"))
GUARD_MS = TTL_MS = 1000
HOURS = {"rust": 9, "python": -3, "node": 0}
SLACK_US = 5_000_000
# The script of the second round trip, which is needed when nodes disagree about the token.
EXTEND = (ROOT / "core/src/node/redis/commands/lua/extend.lua").read_bytes()


class Hold(NamedTuple):
    at: int
    released: int
    fencing_token: int
    token: str
    language: str


class Extends(threading.Thread):
    """Collects the owners whose extends reached a node, from its MONITOR output. It reads a raw socket, because a
    client library is too slow.
    """

    def __init__(self, server: Server) -> None:
        super().__init__(daemon=True)
        self.owners: set[bytes] = set()
        self.socket = socket.create_connection(("127.0.0.1", server.port))
        self.socket.sendall(b"MONITOR\r\n")
        self.start()

    def run(self) -> None:
        script = hashlib.sha1(EXTEND).hexdigest().encode()
        with self.socket.makefile("rb") as lines:
            for line in lines:
                if script in line:  # EVALSHA script keys KEY... TOKEN TTL FENCE
                    words = line.split()
                    at = next(i for i, word in enumerate(words) if script in word) + 1
                    self.owners.add(words[at + 1 + int(words[at].strip(b'"'))].strip(b'"'))

    def close(self) -> None:
        self.socket.shutdown(socket.SHUT_RDWR)
        self.join()
        self.socket.close()


@pytest.fixture
def nodes() -> Iterator[list[Server]]:
    with ExitStack() as stack:
        yield [stack.enter_context(Server()) for _ in range(5)]


def keep_at_it(agent: Agent, name: str, holds: list[Hold], done: threading.Event) -> None:
    """Acquires and releases repeatedly until `done` is set."""
    while not done.is_set():
        held = agent.ask("acquire", name=name, ttl_ms=TTL_MS, wait_ms=5000, fencing=True)
        if not held["ok"]:
            assert held["code"] in ("timeout", "unavailable"), held
            continue
        released = agent.ask("release")
        assert released["ok"] or released["code"] in ("lost", "unavailable"), released
        times = held["at"], released["at"]
        holds.append(Hold(*times, held["fencing_token"], held["token"], agent.language))


def handoffs(holds: list[Hold]) -> int:
    return sum(one.language != next.language for one, next in itertools.pairwise(sorted(holds)))


def restart(node: Server, fence: str) -> None:
    """Restarts a node without data. Returns when it is old enough again and has a fence."""
    node.restart()
    end = time.monotonic() + 30
    while node.command("INFO", "server")["uptime_in_seconds"] < 3 or node.get(fence) is None:
        assert time.monotonic() < end, "the node never voted again"
        time.sleep(0.1)


@pytest.mark.slow("nodes restart and have to grow old")
def test_tokens_only_grow_over_restarts_with_clocks_hours_apart(
    nodes: list[Server], clock_library: str, name: str
) -> None:
    urls, fence = [node.url for node in nodes], f"{{lock:{name}}}:fence"
    holds: list[Hold] = []
    done, restarts = threading.Event(), 0
    with ExitStack() as stack:
        clocks = [
            {"LD_PRELOAD": clock_library, "WALL_OFFSET_S": f"{h * 3600}"} for h in HOURS.values()
        ]
        starts = zip(HOURS, clocks, strict=True)
        agents = [stack.enter_context(Agent(who, urls, GUARD_MS, env)) for who, env in starts]
        extends = Extends(nodes[-1])
        stack.callback(extends.close)
        pool = stack.enter_context(ThreadPoolExecutor(len(agents)))
        stack.callback(done.set)
        working = [pool.submit(keep_at_it, agent, name, holds, done) for agent in agents]
        while restarts < 2 or handoffs(holds) < RUNS:
            restart(nodes[restarts % 4], fence)
            restarts += 1
            assert not any(each.done() for each in working), [each.exception() for each in working]
        done.set()
        for each in working:
            each.result()
    holds.sort()
    for one, after in itertools.pairwise(holds):
        assert after.fencing_token > one.fencing_token, (one, after)
    assert {hold.language for hold in holds} == set(HOURS)
    # A renewal sends extends as well, so holds that were long enough for one do not count.
    short = [hold for hold in holds if hold.released - hold.at < TTL_MS * 1_000_000 / 4]
    twice = sum(hold.token.encode() in extends.owners for hold in short)
    print(
        f"\n{handoffs(holds)} handoffs in {len(holds)} leases over {restarts} restarts; the nodes disagreed and a"
        f" second round trip settled the token for {twice} of {len(short)} leases ({100 * twice / len(short):.1f} %)"
    )


def test_a_clients_clock_moves_a_token_by_the_slack_at_most(
    five: list[Server], clock_library: str, name: str
) -> None:
    tokens = {}
    for language, hours in HOURS.items():
        env = {"LD_PRELOAD": clock_library, "WALL_OFFSET_S": f"{hours * 3600}"}
        with Agent(language, [node.url for node in five], env=env) as agent:
            begin = time.time_ns() // 1000
            lease = agent.must(
                "acquire", name=name + language, ttl_ms=10_000, wait_ms=10_000, fencing=True
            )
            tokens[language] = lease["fencing_token"] - begin
            agent.must("release")
    # On a busy machine, a few seconds at most pass between the request and the time on the node.
    assert SLACK_US <= tokens["rust"] < 2 * SLACK_US, tokens
    assert -SLACK_US <= tokens["python"] < 0, tokens
    assert 0 <= tokens["node"] < SLACK_US, tokens
