"""A rolling migration: on the same keys, redlock and each library that it replaces exclude each other."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis
import redlock

from tests.servers import Server
from tests.waiting import eventually

from .peers import Library, Peer, named

Nodes = tuple[Library, list[Server]]


def values(nodes: Nodes, name: str) -> list[bytes]:
    """Returns the values of the key on the nodes, through a client other than redlock."""
    library, servers = nodes
    found = []
    for server in servers:
        with redis.Redis(port=server.port) as client:  # rslock's tokens are binary
            found.append(client.get(library.prefix + name))
    return [value for value in found if value is not None]


def test_we_wait_for_them_and_are_woken_by_their_release(
    peer: Peer, ours: redlock.Redlock, nodes: Nodes, name: str
) -> None:
    library, _ = nodes
    lock = ours.lock(name)
    assert peer.acquire(name)
    assert lock.try_acquire() is None
    with pytest.raises(
        redlock.LockTimeout, match=f"{library.prefix}{name}: .*already held, and expires in"
    ):
        lock.acquire(wait=0.5)
    assert peer.release()
    assert peer.acquire(name)
    with ThreadPoolExecutor(1) as pool:
        waiter = pool.submit(lock.acquire, wait=60)
        eventually(lambda: ours.stats().waiting == 1)
        assert not waiter.done(), "two holders: acquired while another library held it"
        assert peer.release()
        lease = waiter.result()
    lease.release()


def test_they_wait_for_us_and_get_it_after_our_release(
    peer: Peer, ours: redlock.Redlock, nodes: Nodes, name: str
) -> None:
    library, servers = nodes
    with ours.lock(name).acquire() as lease:
        assert lease.key == library.prefix + name
        assert not peer.acquire(name)
        # A majority grants the lease. The last server sets the key later.
        everywhere = [lease.token.encode()] * len(servers)
        eventually(lambda: values(nodes, name) == everywhere)
    assert peer.acquire(name)
    assert peer.release()
    assert values(nodes, name) == []


def test_their_waiters_find_our_release(
    peer: Peer, ours: redlock.Redlock, nodes: Nodes, name: str
) -> None:
    library, _ = nodes
    lease = ours.lock(name).acquire()
    began = time.monotonic()
    peer.send("acquire", name, 10_000 if library.polls else 2000, 5000 if library.polls else 2000)
    time.sleep(0.3)
    lease.release()
    answer, waited = peer.receive(), time.monotonic() - began
    assert answer == "yes"
    assert waited > 0.25, waited
    # A waiter of python-redis-lock sleeps until that library's release pushes to a list, or until its timeout.
    assert library.polls or waited > 1.5, waited
    assert peer.release()


def test_a_late_release_of_theirs_leaves_our_key(
    peer: Peer, ours: redlock.Redlock, nodes: Nodes, name: str
) -> None:
    library, servers = nodes
    assert peer.acquire(name, ttl_ms=library.least_ttl_ms)
    with ours.lock(name, wait=10).acquire() as lease:
        token = lease.token.encode()
        before = values(nodes, name).count(token)
        assert before > len(servers) // 2
        assert peer.release() is not library.tells
        # The last server may set the key after the majority granted the lease, or still have theirs.
        after = values(nodes, name)
        assert set(after) == {token}
        assert len(after) >= before
        lease.extend(20)


def test_a_late_release_of_ours_leaves_their_key(
    peer: Peer, ours: redlock.Redlock, nodes: Nodes, name: str
) -> None:
    lease = ours.lock(name, ttl=0.5, node_timeout=0.4, renew=False).acquire()
    eventually(lambda: not lease.held and not values(nodes, name))
    assert peer.acquire(name)
    theirs = values(nodes, name)
    with pytest.raises(redlock.LockLost):
        lease.release()
    with pytest.raises(redlock.LockLost):
        ours.attach(name, lease.token)
    assert values(nodes, name) == theirs != []
    assert ours.lock(name).inspect().held
    assert peer.release()


def test_redis_py_lock_without_a_ttl_is_waited_for_and_reported(
    servers: list[Server], name: str
) -> None:
    with (
        Peer(named("redis-py"), [servers[0].url]) as peer,
        redlock.Redlock(servers[0].url, key_prefix="") as ours,
    ):
        assert peer.acquire(name, ttl_ms=0)
        with pytest.raises(redlock.LockTimeout, match="its key has no TTL") as caught:
            ours.lock(name).acquire(wait=0.5)
        assert caught.value.remaining is None
        assert peer.release()
        ours.lock(name).acquire(wait=0).release()


def test_two_names_as_one_lease_move_a_lock_to_another_key(
    servers: list[Server], name: str
) -> None:
    with redlock.Redlock(servers[0].url, key_prefix="") as ours:
        old, new = ours.lock(name), ours.lock(f"lock:{name}")
        both = ours.lock([name, f"lock:{name}"])
        for one in (old, new):
            with one.acquire():
                assert both.try_acquire() is None
            with both.acquire():
                assert one.try_acquire() is None


@pytest.mark.parametrize("command", ["HSET NAME 8f4c:1 1", "ZADD NAME 1 token"])
def test_a_lock_of_another_type_is_an_error_at_once(
    servers: list[Server], name: str, command: str
) -> None:
    """Redisson uses hashes for locks, and Symfony uses sorted sets."""
    servers[0].command(*command.replace("NAME", name).split())
    with (
        redlock.Redlock(servers[0].url, key_prefix="") as ours,
        pytest.raises(redlock.Unsupported, match=f"{name}.*another type"),
    ):
        ours.lock(name).acquire(wait=10)
    assert servers[0].command("EXISTS", name) == 1
