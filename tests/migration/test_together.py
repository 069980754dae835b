"""The time of a migration in which all libraries run at once. Requires all of them to be installed."""

import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

import pytest
import redlock
from cross.agents import LANGUAGES, Agent, now

from tests.servers import Server

from .peers import LIBRARIES, THEIRS, Peer, named


@pytest.mark.usefixtures("rust_agent")
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


RESET_ALL = """
import sys, redis, redis_lock
client = redis.Redis.from_url(sys.argv[1])
redis_lock.Lock(client, "any")
redis_lock.reset_all(client)
"""


def test_reset_all_of_python_redis_lock_deletes_our_locks_and_notifies_us(name: str) -> None:
    with Server() as server, redlock.Redlock(server.url) as ours:
        lease = ours.lock(name, ttl=60).acquire()
        subprocess.run([THEIRS, "-c", RESET_ALL, server.url], check=True)
        assert server.get(lease.key) is None
        with pytest.raises(redlock.LockLost) as caught:
            lease.release()
        assert caught.value.reason == "missing"


def test_all_at_once_never_overlap(servers: list[Server], name: str) -> None:
    """redlock and every library that can use a key named lock:NAME contend for two seconds."""
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
            time.sleep(0.02)  # a notified client would otherwise leave nothing to those that poll

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
    assert most == 1, f"two holders: {most} at once, {holds}"
    assert len(holds) > 3, holds
    print(holds)
