"""Clients over a slow line, a slow name server, and a NAT that forgets idle connections without a reset."""

import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from .agents import LANGUAGES, Agent
from .network import Network, is_possible

pytestmark = pytest.mark.slow("real seconds of delay and silence, and root rights")

#: A client of this version probes a connection that was idle for 10 s.
SILENCE = 11.0
#: One direction of a round trip of 0.6 s and of 0.8 s.
DELAYS = {"tls": 0.3, "plain": 0.4}
HOUR_MS = 3_600_000


@pytest.fixture
def network() -> Iterator[Network]:
    if not is_possible():
        pytest.skip("this user may not create network namespaces, or there are no TUN devices")
    with Network() as network:
        yield network


def url(network: Network, kind: str, **parameters: float) -> str:
    """Returns a URL that gives each reply 5 s. The default of at most 1 s is little more than a round trip."""
    parameters = {"socket_timeout": 5, **parameters}
    return network.tls_url(**parameters) if kind == "tls" else network.url(**parameters)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("kind", DELAYS)
def test_cold_client_acquires_over_a_slow_line(network: Network, kind: str, language: str) -> None:
    network.set(delay=DELAYS[kind])
    # A single attempt, a wait of zero and a wait.
    for verb, wait in ("try", None), ("acquire", 0), ("acquire", 20_000):
        with network.agent(language, url(network, kind)) as agent:
            agent.must(verb, name=f"slow-{kind}", ttl_ms=60_000, wait_ms=wait)
            agent.must("release")
    with network.agent(language, url(network, kind, socket_connect_timeout=0.5)) as agent:
        reply = agent.ask("try", name="early", ttl_ms=60_000)
        assert (reply["ok"], reply["code"]) == (False, "unavailable"), reply
        assert "connect" in reply["message"], reply


@pytest.mark.parametrize("language", LANGUAGES)
def test_slow_name_server_counts_within_the_connect_timeout(
    network: Network, language: str
) -> None:
    network.set(lookup=2.5)
    with network.agent(language, network.url("redis.test")) as agent:
        agent.must("acquire", name="named", ttl_ms=60_000, wait_ms=0)
        agent.must("release")
    # Longer than one attempt to connect may take. The next one uses the result of the same lookup.
    network.set(lookup=5.2)
    with network.agent(language, network.url("redis.test")) as agent:
        before = time.monotonic()
        agent.must("acquire", name="joined", ttl_ms=60_000, wait_ms=30_000)
        assert time.monotonic() - before < 8
        agent.must("release")
    network.set(lookup=7.0)
    with network.agent(language, network.url("redis.test", socket_connect_timeout=20)) as agent:
        agent.must("acquire", name="later", ttl_ms=60_000, wait_ms=0)
        agent.must("release")
    with network.agent(language, network.url("redis.test", socket_connect_timeout=1)) as agent:
        before = time.monotonic()
        reply = agent.ask("acquire", name="early", ttl_ms=60_000, wait_ms=0)
        assert (reply["ok"], reply["code"]) == (False, "unavailable"), reply
        assert "connect" in reply["message"], reply
        assert time.monotonic() - before < 7, reply


@pytest.fixture
def agents(network: Network) -> Iterator[list[Agent]]:
    """One agent for each language and kind of connection, all connected."""
    with ExitStack() as stack:
        some = [
            stack.enter_context(network.agent(language, url(network, kind)))
            for language in LANGUAGES
            for kind in DELAYS
        ]
        for at, agent in enumerate(some):
            agent.must("acquire", name=f"job-{at}", ttl_ms=HOUR_MS, wait_ms=0)
        yield some


def silence(network: Network) -> None:
    network.set(forget=True)
    time.sleep(SILENCE)


@pytest.mark.limit(300)
def test_job_runs_over_a_connection_that_a_nat_forgot(
    network: Network, agents: list[Agent]
) -> None:
    for agent in agents:
        agent.must("release")
    for _ in range(5):
        silence(network)
        for at, agent in enumerate(agents):
            agent.send("acquire", name=f"job-{at}", ttl_ms=10_000, wait_ms=0)
        replies = [agent.receive() for agent in agents]
        assert all(reply["ok"] for reply in replies), replies
        for agent in agents:
            agent.must("release")


@pytest.mark.limit(300)
def test_calls_succeed_over_a_connection_that_a_nat_forgot(
    network: Network, agents: list[Agent]
) -> None:
    tokens = [network.command("GET", f"lock:job-{at}").decode() for at in range(len(agents))]
    for verb in "extend", "inspect", "attach", "force_release", "try", "release":
        silence(network)
        for at, agent in enumerate(agents):
            name = f"job-{at}"
            if verb == "attach":
                # In Rust, the drop of the earlier lease would release the key.
                agent.must("detach")
            match verb:
                case "extend":
                    agent.send(verb, ttl_ms=HOUR_MS)
                case "attach":
                    agent.send(verb, name=name, token=tokens[at], ttl_ms=HOUR_MS)
                case "try":
                    agent.send(verb, name=f"other-{at}", ttl_ms=HOUR_MS)
                case _:
                    agent.send(verb, name=name)
        replies = [agent.receive() for agent in agents]
        assert all(reply["ok"] for reply in replies), (verb, replies)
        if verb in ("inspect", "force_release"):
            known = [reply.get("held", reply.get("deleted")) for reply in replies]
            assert all(known), (verb, replies)
    assert network.command("EXISTS", *(f"lock:job-{at}" for at in range(len(agents)))) == 0
