"""How clients and leases end: `release_all`, leases that share a token, and `shutdown`."""

from contextlib import closing

import pytest

from tests.cross.agents import now
from tests.servers import Server, Silent
from tests.waiting import eventually

from .conftest import World
from .failing import closed_port
from .remote import TTL, Client, Lock, Pending

#: Milliseconds. Longer than any test takes.
LONG = 600_000


def begin_shutdown(client: Client, held: Lock) -> Pending:
    """Begins a shutdown that has much time, and waits until the client refuses to acquire the held lock."""
    ending = client.begin("shutdown", timeout_ms=LONG)
    eventually(lambda: held.start("try").reply()["code"] == "closed")
    return ending


def test_release_all_notifies_the_holders(world: World) -> None:
    lock = world.one.lock(world.name)
    lease = lock.acquire()
    waiting = lock.start()
    eventually(lambda: world.one.waiting == 1)
    assert world.one.do("release_all")["released"] == 1
    lease.is_lost("revoked")
    # The release of the lost lease, which raised the loss, has not released the next one.
    assert waiting.lease().held
    lock.is_refused()


def test_every_lease_of_a_token_is_notified(world: World) -> None:
    lock = world.one.lock(world.name, ttl_ms=TTL * 3)
    first = lock.acquire()
    second, waiting = lock.attach(first.token), lock.start()
    second.release()
    first.is_lost("revoked")
    third = waiting.lease()
    fourth = lock.attach(third.token)
    world.two.lock(world.name).do("force_release")
    # The release of the first one would revoke the other one if that is not notified yet.
    eventually(lambda: not third.held and not fourth.held)
    for lease in (third, fourth):
        lease.is_lost("missing", "quorum")


@pytest.mark.parametrize("of_one_client", [False, True])
def test_shutdown_waits_for_leases_and_waiting_acquires(world: World, of_one_client: bool) -> None:
    lock, theirs = world.one.lock(world.name), world.two.lock(world.name)
    lease = (lock if of_one_client else theirs).acquire()
    callers = []
    for _ in range(3):
        callers.append(lock.start())
        eventually(lambda: world.one.waiting == len(callers))
    ending = begin_shutdown(world.one, lock)
    new = world.one.lock("new")
    new.fails("acquire", "closed", wait_ms=0)
    new.fails("inspect", "closed")
    lock.fails("attach", "closed", token=lease.token)
    for caller in callers:
        lease.extend(TTL * 2)
        assert not ending.is_over
        lease.release()
        lease = caller.lease()
    lease.release()
    assert ending.reply()["released"] == 0
    # No key is left.
    theirs.acquire().release()


@pytest.mark.parametrize("timeout_ms", [0, 300])
def test_waits_and_leases_end_at_the_timeout(world: World, timeout_ms: int) -> None:
    lock = world.one.lock(world.name)
    lease = lock.acquire()
    theirs = world.two.lock(f"{world.name}-theirs").acquire()
    waiting = [world.one.lock(name).start() for name in (world.name, f"{world.name}-theirs")]
    eventually(lambda: world.one.waiting == 2)
    begun = now()
    ended = world.one.do("shutdown", timeout_ms=timeout_ms)
    assert ended["released"] == 1
    assert ended["at"] - begun >= timeout_ms * 1_000_000
    assert [caller.reply()["code"] for caller in waiting] == ["closed", "closed"]
    lease.is_lost("revoked")
    world.two.lock(world.name).acquire().release()
    assert theirs.held
    assert world.one.do("shutdown", timeout_ms=LONG)["released"] == 0


def test_shutdown_ends_an_acquire_that_still_connects(on_servers: World) -> None:
    with closing(Silent()) as silent:
        client = on_servers.client(nodes=[silent.url])
        callers = [client.lock(verb).start(verb) for verb in ("acquire", "try")]
        eventually(lambda: client.waiting == 2)
        assert client.do("shutdown", timeout_ms=0)["released"] == 0
        assert [caller.reply()["code"] for caller in callers] == ["closed", "closed"]


def test_shutdown_does_not_wait_for_a_dead_server(timed: World) -> None:
    with Server() as server:
        client = timed.client(nodes=[server.url])
        lock = client.lock("job")
        lock.acquire()
    client.fails("shutdown", "unavailable", timeout_ms=0)
    lock.fails("acquire", "closed", wait_ms=0)


def test_shutdown_ignores_a_dead_node_without_pending_deletes(on_servers: World) -> None:
    urls = [on_servers.servers[0].url, "memory://x", closed_port()]
    client = on_servers.client(nodes=urls)
    client.lock(on_servers.name).acquire().release()
    assert client.do("shutdown", timeout_ms=LONG)["released"] == 0


def test_shutdown_reports_a_delete_that_waits_for_a_failing_node(timed: World) -> None:
    for is_early in (True, False):
        # The shutdown of the test client itself makes the node recover.
        client = timed.client()
        lease = client.lock("job", ttl_ms=TTL * 3).acquire()
        timed.one.do("fail")
        lease.fails("release", "unavailable")
        if is_early:
            error = client.fails("shutdown", "unavailable", timeout_ms=0)
            assert "releases are not confirmed" in error["message"]
            timed.one.do("recover")
            assert not timed.one.lock("job").do("inspect")["held"]
            assert client.do("shutdown", timeout_ms=0)["released"] == 0
        else:
            ending = client.begin("shutdown", timeout_ms=LONG)
            timed.one.do("recover")
            assert ending.reply()["released"] == 0
