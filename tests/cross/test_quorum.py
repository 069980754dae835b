"""A quorum with dead nodes, with an even number of nodes, and with split votes."""

import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.servers import Server
from tests.waiting import eventually

from .agents import LANGUAGES, Agent


@pytest.fixture
def disposable_servers() -> Iterator[list[Server]]:
    """Starts five servers for one test, which may kill them."""
    with ExitStack() as stack:
        yield [stack.enter_context(Server()) for _ in range(5)]


def urls(servers: list[Server]) -> list[str]:
    return [server.url for server in servers]


def until_gone(servers: list[Server], key: str) -> None:
    """Waits for the clean-up, which is sent before an acquire gives up and arrives soon after."""
    eventually(lambda: not any(server.get(key) for server in servers), f"{key} is left")


@pytest.mark.parametrize("language", LANGUAGES)
def test_two_of_five_dead(language: str, disposable_servers: list[Server], name: str) -> None:
    for server in disposable_servers[:2]:
        server.kill()
    with (
        Agent(language, urls(disposable_servers)) as holder,
        Agent("rust", urls(disposable_servers)) as contender,
    ):
        for _ in range(3):
            holder.must("acquire", name=name, ttl_ms=10_000, wait_ms=2000)
            assert contender.ask("try", name=name, ttl_ms=10_000)["code"] == "held"
            holder.must("extend", ttl_ms=12_000)
            holder.must("release")


@pytest.mark.slow("renewal goes on for longer than a ttl")
def test_two_of_five_die_while_held(disposable_servers: list[Server], name: str) -> None:
    with Agent("rust", urls(disposable_servers)) as holder:
        holder.must("acquire", name=name, ttl_ms=3000, wait_ms=2000)
        disposable_servers[0].kill()
        disposable_servers[1].freeze()
        time.sleep(5)
        assert holder.must("held")["held"], "renewal needs no more than a quorum"
        holder.must("release")


@pytest.mark.parametrize("language", LANGUAGES)
def test_three_of_five_dead(language: str, disposable_servers: list[Server], name: str) -> None:
    for server in disposable_servers[:3]:
        server.kill()
    with Agent(language, urls(disposable_servers)) as agent:
        for wait_ms in (0, 500):
            refused = agent.ask("acquire", name=name, ttl_ms=600_000, wait_ms=wait_ms)
            assert refused["code"] == "unavailable", refused
            assert [node["state"] for node in refused["nodes"]].count("fault") == 3, refused
            for server in disposable_servers[:3]:
                assert str(server.port) in refused["message"], refused
            until_gone(disposable_servers[3:], f"lock:{name}")


def test_three_of_five_frozen(disposable_servers: list[Server], name: str) -> None:
    """A frozen node accepts connections and sends no reply."""
    for server in disposable_servers[:3]:
        server.freeze()
    with Agent("rust", urls(disposable_servers)) as agent:
        refused = agent.ask("acquire", name=name, ttl_ms=600_000, wait_ms=1500)
        assert refused["code"] == "unavailable", refused
        until_gone(disposable_servers[3:], f"lock:{name}")
        for server in disposable_servers[:3]:
            server.thaw()
        agent.must("acquire", name=name, ttl_ms=10_000, wait_ms=5000)


@pytest.mark.parametrize(
    ("count", "dead", "works"), [(2, 0, True), (2, 1, False), (4, 1, True), (4, 2, False)]
)
def test_even_counts(
    count: int, dead: int, works: bool, disposable_servers: list[Server], name: str
) -> None:
    nodes = disposable_servers[:count]
    for server in nodes[:dead]:
        server.kill()
    with Agent("rust", urls(nodes)) as agent:
        reply = agent.ask("acquire", name=name, ttl_ms=5000, wait_ms=1000)
        assert reply["ok"] == works, reply
        assert works or reply["code"] == "unavailable", reply
        assert not works or agent.must("release")


@pytest.mark.parametrize("count", [2, 4])
def test_a_tie_is_a_failed_round(count: int, five: list[Server], name: str) -> None:
    nodes = five[:count]
    for server in nodes[: count // 2]:
        server.command("SET", f"lock:{name}", "somebody", "PX", 60_000)
    with Agent("rust", urls(nodes)) as agent:
        assert agent.ask("try", name=name, ttl_ms=5000)["code"] == "held"
        refused = agent.ask("acquire", name=name, ttl_ms=600_000, wait_ms=500)
        assert refused["code"] == "timeout", refused
        until_gone(nodes[count // 2 :], f"lock:{name}")
        for server in nodes[: count // 2]:
            server.command("PEXPIRE", f"lock:{name}", 1)
        agent.must("acquire", name=name, ttl_ms=5000, wait_ms=20_000)


@pytest.mark.parametrize("count", [2, 3, 4])
def test_every_caller_acquires_despite_split_votes(
    count: int, five: list[Server], name: str
) -> None:
    """Contenders that repeatedly split the votes still acquire the lock, one after the other."""
    nodes = urls(five[:count])
    with ExitStack() as stack:
        agents = [stack.enter_context(Agent("rust", nodes)) for _ in range(6)]
        for agent in agents:
            agent.send("acquire", name=name, ttl_ms=10_000, wait_ms=20_000)
        waiting = list(agents)
        while waiting:
            held = [agent for agent in waiting if not agent.silent_for(0.01)]
            assert len(held) <= 1, f"two holders: {held}"
            for agent in held:
                reply = agent.receive()
                assert reply["ok"], reply
                agent.must("release")
                waiting.remove(agent)
        until_gone(five[:count], f"lock:{name}")
