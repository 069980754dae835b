"""`min_replicas` and `fsync`: a vote counts only once replicas and disks have it."""

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
import redlock

from tests.waiting import eventually, forever

from .servers import Server


@pytest.fixture
def replicated() -> Iterator[tuple[Server, Server]]:
    primary = Server("--repl-diskless-sync-delay", "0")
    replica = Server("--replicaof", "127.0.0.1", str(primary.port))
    while primary.client.wait(1, 100) < 1:
        primary.client.incr("awaited")
    yield primary, replica
    replica.close()
    primary.close()


def test_granted_key_is_on_the_replica(
    replicated: tuple[Server, Server], call: Callable[..., Any]
) -> None:
    primary, replica = replicated
    with redlock.Redlock(primary.url, min_replicas=1) as client:
        for at in range(20):
            lease = call(client.lock(f"job {at}", ttl=5), "acquire")
            assert replica.client.get(lease.key) == lease.token
            call(lease, "extend", ttl=60)
            assert replica.client.pttl(lease.key) > 10_000
            call(lease, "release")


def test_a_primary_without_its_replica_grants_and_renews_nothing(
    replicated: tuple[Server, Server],
) -> None:
    primary, replica = replicated

    async def body(lock: redlock.Lock) -> None:
        async with lock:
            replica.process.send_signal(signal.SIGSTOP)
            await forever()

    with redlock.Redlock(primary.url, min_replicas=1) as client:
        with pytest.raises(redlock.LockLost) as lost:
            asyncio.run(body(client.lock("job", ttl=1)))
        assert lost.value.reason == "expired"
        lock = client.lock("other", ttl=600, node_timeout=1)
        with pytest.raises(redlock.QuorumUnavailable, match="reached 0 of 1 replicas within"):
            lock.acquire(wait=0)
        eventually(lambda: not primary.client.exists("lock:other"), "the key is still there")
    replica.process.send_signal(signal.SIGCONT)


def knows_waitaof(server: Server) -> bool:
    """Returns whether the server is Valkey, or Redis 7.2 or later."""
    with contextlib.suppress(redis.ResponseError):
        server.client.execute_command("WAITAOF", 0, 0, 0)
        return True
    return False


def test_granted_key_survives_a_crash_with_fsync(call: Callable[..., Any]) -> None:
    server = Server("--appendonly", "yes", "--appendfsync", "everysec")
    with contextlib.closing(server), redlock.Redlock(server.url, fsync=True) as client:
        if knows_waitaof(server):
            lease = call(client.lock("job", ttl=60), "acquire")
            server.restart()
            assert server.client.get("lock:job") == lease.token
        else:
            with pytest.raises(redlock.Unsupported, match=r"fsync needs WAITAOF.*Redis 7\.2"):
                call(client.lock("job"), "acquire")


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ({"min_replicas": True}, "min_replicas is True: it must be a whole number"),
        ({"min_replicas": "1"}, "min_replicas is '1': it must be a whole number"),
        ({"fsync": 1}, "fsync is 1: it must be True or False"),
    ],
)
def test_wrong_option_types_are_refused(option: dict[str, object], words: str) -> None:
    with pytest.raises(redlock.InvalidOption) as refused:
        redlock.Redlock("redis://127.0.0.1:1", **option)  # type: ignore[arg-type]
    assert words in str(refused.value)


def test_fsync_is_refused_for_memory() -> None:
    with pytest.raises(redlock.InvalidOption, match="fsync is set, but memory://x has no disk"):
        redlock.Redlock("memory://x", fsync=True)
