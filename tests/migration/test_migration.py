"""A rolling migration: on the same keys, redlock and each library it replaces exclude each other."""

import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

import pytest
import redis
import redlock
from cross.agents import LANGUAGES, Agent, now
from cross.servers import Server

from .peers import LIBRARIES, THEIRS, Library, Peer, named

Nodes = tuple[Library, list[Server]]


def values(nodes: Nodes, name: str) -> list[bytes]:
    """What the nodes have at the key, read by a client that is not ours."""
    library, servers = nodes
    found = []
    for server in servers:
        with redis.Redis(port=server.port) as client:  # rslock's tokens are no text
            found.append(client.get(library.prefix + name))
    return [value for value in found if value is not None]


def test_we_wait_for_them_and_are_woken_by_their_release(
    peer: Peer, ours: redlock.Redlock, nodes: Nodes, name: str
) -> None:
    library, _ = nodes
    lock = ours.lock(name)
    delays = []
    # The best of three: one may be late on a busy machine, none is this early by asking again.
    for _ in range(3):
        assert peer.acquire(name)
        assert lock.try_acquire() is None
        with pytest.raises(redlock.LockTimeout, match=f"{library.prefix}{name}: .*holds it, for"):
            lock.acquire(wait=0.1)
        with ThreadPoolExecutor(1) as pool:
            waiter = pool.submit(lock.acquire, wait=10)
            time.sleep(0.1)
            assert not waiter.done()
            released = time.monotonic()
            assert peer.release()
            lease = waiter.result()
            delays.append(time.monotonic() - released)
        lease.release()
    assert min(delays) < 0.3, delays


def test_they_wait_for_us_and_get_it_after_our_release(
    peer: Peer, ours: redlock.Redlock, nodes: Nodes, name: str
) -> None:
    library, servers = nodes
    with ours.lock(name).acquire() as lease:
        assert lease.key == library.prefix + name
        assert not peer.acquire(name)
        assert values(nodes, name) == [lease.token.encode()] * len(servers)
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
    # python-redis-lock's waiters sleep until its own release pushes to a list, or their timeout is over.
    assert library.polls or waited > 1.5, waited
    assert peer.release()


def test_a_late_release_of_theirs_leaves_our_key(
    peer: Peer, ours: redlock.Redlock, nodes: Nodes, name: str
) -> None:
    library, servers = nodes
    assert peer.acquire(name, ttl_ms=library.least_ttl_ms)
    with ours.lock(name, wait=10).acquire() as lease:
        assert peer.release() is not library.tells
        assert values(nodes, name) == [lease.token.encode()] * len(servers)
        lease.extend(20)


def test_a_late_release_of_ours_leaves_their_key(
    peer: Peer, ours: redlock.Redlock, nodes: Nodes, name: str
) -> None:
    lease = ours.lock(name, ttl=0.2, renew=False).acquire()
    time.sleep(0.3)
    assert peer.acquire(name)
    theirs = values(nodes, name)
    with pytest.raises(redlock.LockLost):
        lease.release()
    with pytest.raises(redlock.LockLost):
        ours.attach(name, lease.token)
    assert values(nodes, name) == theirs != []
    assert ours.lock(name).inspect().held
    assert peer.release()


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("library", ["redis-py", "redlock-5"])
def test_their_release_wakes_a_waiter_in_every_language(
    servers: list[Server], name: str, library: str, language: str
) -> None:
    url = servers[0].url
    with Peer(named(library), [url]) as peer, Agent(language, [url]) as waiter:
        delays = []
        for _ in range(3):
            assert peer.acquire(f"lock:{name}")
            waiter.send("acquire", name=name, ttl_ms=10_000, wait_ms=None)
            assert waiter.silent_for(0.15), "acquired while another held it"
            released = now()
            assert peer.release()
            delays.append((waiter.receive()["at"] - released) / 1e9)
            waiter.must("release")
    assert min(delays) < 0.25, delays


def test_a_redis_py_lock_without_a_ttl_is_waited_for_and_said_to_have_no_end(
    servers: list[Server], name: str
) -> None:
    with (
        Peer(named("redis-py"), [servers[0].url]) as peer,
        redlock.Redlock(servers[0].url, key_prefix="") as ours,
    ):
        assert peer.acquire(name, ttl_ms=0)
        with pytest.raises(redlock.LockTimeout, match="without a known end") as caught:
            ours.lock(name).acquire(wait=0.2)
        assert caught.value.remaining is None
        assert peer.release()
        ours.lock(name).acquire(wait=0).release()


RESET_ALL = """
import sys, redis, redis_lock
client = redis.Redis.from_url(sys.argv[1])
redis_lock.Lock(client, "any")
redis_lock.reset_all(client)
"""


def test_reset_all_of_python_redis_lock_deletes_our_locks_and_we_are_told(name: str) -> None:
    with Server() as server, redlock.Redlock(server.url) as ours:
        lease = ours.lock(name, ttl=60).acquire()
        subprocess.run([THEIRS, "-c", RESET_ALL, server.url], check=True)
        assert server.get(lease.key) is None
        with pytest.raises(redlock.LockLost) as caught:
            lease.release()
        assert caught.value.reason == "missing"


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
    """Redisson locks are hashes, Symfony's sorted sets."""
    servers[0].command(*command.replace("NAME", name).split())
    with redlock.Redlock(servers[0].url, key_prefix="") as ours:
        began = time.monotonic()
        with pytest.raises(redlock.InvalidOption, match=f"{name}.*another type"):
            ours.lock(name).acquire(wait=10)
        assert time.monotonic() - began < 5
    assert servers[0].command("EXISTS", name) == 1


def test_all_at_once_never_overlap(servers: list[Server], name: str) -> None:
    """The last day of a migration: every library that can use a key named lock:NAME, and ours, for two seconds."""
    key, url = f"lock:{name}", servers[0].url
    inside = most = 0
    holds: dict[str, int] = {}

    def critical(who: str) -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        time.sleep(0.002)
        inside -= 1
        holds[who] = holds.get(who, 0) + 1

    def theirs(peer: Peer) -> None:
        while time.monotonic() < end:
            if peer.acquire(key.removeprefix(peer.library.prefix), 10_000, 1000):
                critical(peer.library.name)
                assert peer.release()

    def us(client: redlock.Redlock) -> None:
        while time.monotonic() < end:
            with suppress(redlock.LockTimeout), client.lock(name, wait=1).acquire():
                critical("redlock")
            time.sleep(0.02)  # who is told at once would leave nothing to those who poll

    with ExitStack() as stack:
        libraries = [library for library in LIBRARIES if key.startswith(library.prefix)]
        peers = [stack.enter_context(Peer(library, [url])) for library in libraries]
        clients = [stack.enter_context(redlock.Redlock(url)) for _ in range(2)]
        pool = stack.enter_context(ThreadPoolExecutor(len(peers) + len(clients)))
        end = time.monotonic() + 2
        runs = [pool.submit(theirs, peer) for peer in peers]
        runs += [pool.submit(us, client) for client in clients]
    for run in runs:
        run.result()
    assert most == 1, holds
    assert len(holds) > 3, holds
    print(holds)
