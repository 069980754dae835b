"""What a holder that is late, frozen or partly cut off may do, and what it may not."""

import time
import uuid
from contextlib import ExitStack

import pytest

from tests.servers import Server
from tests.waiting import eventually

from .agents import LANGUAGES, Agent
from .proxy import Proxy

COUNTS = pytest.mark.parametrize("count", [1, 5])


@COUNTS
@pytest.mark.parametrize("late", ["release", "extend", "held"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_frozen_beyond_the_ttl(
    language: str, late: str, count: int, five: list[Server], name: str
) -> None:
    """A late holder does not touch the next holder's lock, and learns that it has lost its own."""
    nodes = [server.url for server in five[:count]]
    with Agent(language, nodes) as sleeper, Agent("rust", nodes) as successor:
        sleeper.must("acquire", name=name, ttl_ms=1000, wait_ms=5000)
        sleeper.pause()
        second = successor.must("acquire", name=name, ttl_ms=20_000, wait_ms=5000)
        sleeper.resume()
        reply = sleeper.ask(late, ttl_ms=1000)
        if late == "held":
            assert reply.get("held") is False, reply
        else:
            assert reply["code"] == "lost", reply
        assert sleeper.ask("lost", timeout_ms=2000)["ok"]
        assert successor.must("held")["held"]
        # Ordered after every command that the late holder would send.
        sleeper.must("acquire", name=f"{name}-next", ttl_ms=1000, wait_ms=10_000)
        owners = [server.get(f"lock:{name}") for server in five[:count]]
        assert owners.count(second["token"]) > count // 2, owners
        successor.must("release")


def everywhere(servers: list[Server], name: str, token: str) -> None:
    """Waits for all votes. Three of five make a lease, and the others may arrive shortly after."""
    everyone = [token] * len(servers)
    eventually(lambda: [server.get(f"lock:{name}") for server in servers] == everyone)


@COUNTS
def test_deleted_by_hand(count: int, five: list[Server], name: str) -> None:
    """A holder with deleted keys is notified before its TTL ends, and never creates the keys again."""
    with Agent("rust", [server.url for server in five[:count]]) as holder:
        token = holder.must("acquire", name=name, ttl_ms=3000, wait_ms=0)["token"]
        everywhere(five[:count], name, token)  # a later vote would create a new key
        holder.pause()  # node by node, it would restore the lease on each node
        for server in five[:count]:
            server.command("DEL", f"lock:{name}")
        holder.resume()
        lost = holder.ask("lost", timeout_ms=2500)
        assert lost["ok"], lost
        # It may have been paused during a check in which some nodes still had the key.
        assert lost["reason"] in ("missing", "quorum"), lost
        assert holder.ask("release")["code"] == "lost"
        # Ordered after every command that would create the keys again.
        holder.must("acquire", name=f"{name}-next", ttl_ms=1000, wait_ms=10_000)
        assert not any(server.get(f"lock:{name}") for server in five[:count])


def test_lease_is_restored_on_single_nodes(five: list[Server], name: str) -> None:
    """A minority that lost the key gets it again, so that the lease survives the next loss."""
    with Agent("rust", [server.url for server in five]) as holder:
        token = holder.must("acquire", name=name, ttl_ms=3000, wait_ms=0)["token"]
        everywhere(five, name, token)
        for server in five[:2]:
            server.command("DEL", f"lock:{name}")
        everywhere(five, name, token)
        assert holder.must("held")["held"]
        holder.must("release")
        eventually(lambda: not any(server.get(f"lock:{name}") for server in five))


@COUNTS
@pytest.mark.parametrize("language", LANGUAGES)
def test_lost_reply_locks_no_caller_out(
    language: str, count: int, five: list[Server], name: str
) -> None:
    """The nodes grant, but the replies are lost. The grant is cancelled long before its TTL."""
    with ExitStack() as stack:
        proxies = [stack.enter_context(Proxy(server)) for server in five[:count]]
        agent = stack.enter_context(Agent(language, [proxy.url for proxy in proxies]))
        agent.must("acquire", name=f"{name}-warm-up", ttl_ms=60_000, wait_ms=2000)
        agent.must("release")
        for proxy in proxies:
            proxy.drop_replies = True
        refused = agent.ask("acquire", name=name, ttl_ms=60_000, wait_ms=500)
        assert refused["code"] == "unavailable", refused
        assert any(proxy.dropped for proxy in proxies)
        for proxy in proxies:
            proxy.drop_replies = False
            proxy.reset()
        # Shorter than the TTL of the lost grants.
        taken = agent.must("acquire", name=name, ttl_ms=60_000, wait_ms=20_000)
        assert taken["remaining_ms"] > 50_000, "validity counts from its own round"
        agent.must("release")


@COUNTS
@pytest.mark.slow("connections that are cut at moments apart, and two seconds for what comes late")
def test_connection_reset_under_the_round(count: int, five: list[Server], name: str) -> None:
    """Connections that break repeatedly while a reply is in flight leave no key behind."""
    with ExitStack() as stack:
        proxies = [stack.enter_context(Proxy(server)) for server in five[:count]]
        agent = stack.enter_context(Agent("rust", [proxy.url for proxy in proxies]))
        for proxy in proxies:
            proxy.delay = 0.05
        for turn in range(8):
            agent.send("acquire", name=f"{name}-{turn}", ttl_ms=60_000, wait_ms=10_000)
            time.sleep(0.02)
            for proxy in proxies:
                proxy.reset()
            reply = agent.receive()
            if reply["ok"]:
                agent.must("release")
        time.sleep(2)
        left = [server.command("KEYS", f"lock:{name}-*") for server in five[:count]]
        assert not any(left), left


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.slow("two seconds of waiting")
def test_full_validity_after_waiting(language: str, five: list[Server]) -> None:
    """Waiting time does not shorten the lease."""
    for nodes in ([five[0].url], [server.url for server in five]):
        name = f"test-{uuid.uuid4().hex[:8]}"
        with Agent("rust", nodes) as holder, Agent(language, nodes) as waiter:
            holder.must("acquire", name=name, ttl_ms=10_000, wait_ms=0)
            waiter.send("acquire", name=name, ttl_ms=3000, wait_ms=None)
            assert waiter.silent_for(2)
            holder.must("release")
            reply = waiter.receive()
            assert reply["ok"], reply
            # 3000 less the drift (1 % and 2 ms) and the duration of the round.
            assert 2500 < reply["remaining_ms"] <= 2968, reply


def test_slow_round_is_never_a_lease(five: list[Server], name: str) -> None:
    """Replies that arrive after the TTL grant nothing."""
    with ExitStack() as stack:
        proxies = [stack.enter_context(Proxy(server)) for server in five]
        agent = stack.enter_context(Agent("rust", [proxy.url for proxy in proxies]))
        agent.must("acquire", name=f"{name}-warm-up", ttl_ms=5000, wait_ms=2000)
        for proxy in proxies:
            proxy.delay = 0.4
        reply = agent.ask("acquire", name=name, ttl_ms=300, wait_ms=1500)
        assert not reply["ok"], reply
