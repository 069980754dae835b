"""Replicas, disks and restarts: what a vote needs to count, and what a node without its data may still do."""

import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
import redis

from tests.cross.agents import now
from tests.ports import free_port
from tests.servers import Server
from tests.waiting import eventually

from .conftest import World
from .remote import TTL


@pytest.fixture
def replicated() -> Iterator[tuple[Server, Server]]:
    with (
        Server("--repl-diskless-sync-delay", "0") as primary,
        Server("--replicaof", "127.0.0.1", str(primary.port)) as replica,
    ):
        while primary.client.wait(1, 100) < 1:
            primary.client.incr("awaited")
        yield primary, replica


def test_a_granted_key_is_on_the_replica(timed: World, replicated: tuple[Server, Server]) -> None:
    primary, replica = replicated
    client = timed.client(nodes=[primary.url], min_replicas=1, node_timeout_ms=10_000)
    for at in range(20):
        lease = client.lock(f"job {at}").acquire()
        assert replica.client.get(lease.keys[0]) == lease.token
        lease.extend(TTL * 3)
        assert replica.client.pttl(lease.keys[0]) > TTL * 2
        lease.release()


def test_a_primary_without_its_replica_grants_and_renews_nothing(
    timed: World, replicated: tuple[Server, Server]
) -> None:
    primary, replica = replicated
    client = timed.client(nodes=[primary.url], min_replicas=1, node_timeout_ms=1000)
    lease = client.lock("job", ttl_ms=3000).acquire(wait_ms=TTL)
    replica.process.send_signal(signal.SIGSTOP)
    lease.is_lost("expired")
    message = client.lock("other").fails("acquire", "unavailable", wait_ms=0)["message"]
    assert "reached 0 of 1 replicas within" in message
    eventually(lambda: not primary.client.exists("lock:other"), "the key is still there")
    replica.process.send_signal(signal.SIGCONT)


def knows_waitaof(server: Server) -> bool:
    """Returns whether the server is Valkey, or Redis 7.2 or later."""
    try:
        server.client.execute_command("WAITAOF", 0, 0, 0)
    except redis.ResponseError:
        return False
    return True


def test_a_granted_key_survives_a_crash_with_fsync(timed: World) -> None:
    with Server("--appendonly", "yes", "--appendfsync", "everysec") as server:
        lock = timed.client(nodes=[server.url], fsync=True).lock("job", ttl_ms=TTL * 3)
        if knows_waitaof(server):
            lease = lock.acquire()
            server.restart()
            assert server.get("lock:job") == lease.token
        else:
            message = lock.fails("acquire", "unsupported", wait_ms=0)["message"]
            assert "fsync needs WAITAOF" in message
            assert "Redis 7.2" in message


def test_fsync_needs_a_disk(timed: World) -> None:
    error = timed.one.fails("client", "invalid", nodes=["memory://x"], fsync=True)
    assert "fsync is set, but memory://x has no disk" in error["message"]


@pytest.fixture
def five() -> Iterator[list[Server]]:
    """Servers that the test restarts."""
    with ExitStack() as stack:
        yield [stack.enter_context(Server()) for _ in range(5)]


def test_a_restarted_node_says_when_it_votes(timed: World, five: list[Server]) -> None:
    client = timed.client(nodes=[server.url for server in five], restart_guard_ms=600_000)
    lock = client.lock("job")
    error = lock.fails("acquire", "unavailable", wait_ms=0)
    assert "grants new leases in " in error["message"]
    young = [node for node in error["nodes"] if "grants new leases in" in (node["error"] or "")]
    assert len(young) >= 3
    found = lock.do("inspect")
    assert {node["state"] for node in found["nodes"]} == {"free"}
    assert all("grants new leases in" in node["error"] for node in found["nodes"])
    too_long = client.lock("job", ttl_ms=601_000).mistake()
    assert "restart" in too_long


def test_rolling_restarts_keep_the_lease_on_every_node(timed: World, five: list[Server]) -> None:
    client = timed.client(nodes=[server.url for server in five])
    lock = client.lock("job", ttl_ms=30_000)
    lease = lock.acquire(wait_ms=TTL)

    def healed(server: Server) -> None:
        eventually(lambda: server.get("lock:job") == lease.token, "a node was not healed")

    for server in five:  # the vote is over after three grants
        healed(server)
    for server in five:
        server.restart()
        healed(server)
        lease.do("ensure_held")
    assert [node["state"] for node in lock.do("inspect")["nodes"]] == ["held"] * 5
    lease.release()
    eventually(lambda: not any(server.get("lock:job") for server in five))


def test_one_server_under_two_urls_is_no_quorum(on_servers: World) -> None:
    url = on_servers.servers[0].url
    client = on_servers.client(nodes=[url, f"{url}/1"])
    assert "same server" in client.lock("job").fails("acquire", "invalid", wait_ms=TTL)["message"]


@pytest.mark.slow("what a client sends in five seconds is counted")
@pytest.mark.parametrize("callers", [1, 8, 100])
def test_a_demoted_server_gets_few_connections_and_is_found_again(
    timed: World, callers: int
) -> None:
    """Any number of callers cause few connections. Each has its lock within a second of the promotion."""
    most = 20
    with Server() as server:
        client = timed.client(nodes=[server.url])
        client.lock("job").acquire().release()
        before = server.client.info("stats")
        server.client.replicaof("127.0.0.1", free_port())
        waiting = [client.lock(f"job {at}").start(wait_ms=60_000) for at in range(callers)]
        threading.Event().wait(5)
        after = server.client.info("stats")
        server.client.replicaof("NO", "ONE")
        promoted = now()
        replies = [caller.reply() for caller in waiting]
    assert all(reply["ok"] for reply in replies)
    assert max(reply["at"] for reply in replies) - promoted < 1_000_000_000
    connections = after["total_connections_received"] - before["total_connections_received"]
    assert connections <= most
    # Each caller sends a vote and a delete over the connection that ends.
    commands = after["total_commands_processed"] - before["total_commands_processed"]
    assert commands <= 3 * most + 6 * callers
