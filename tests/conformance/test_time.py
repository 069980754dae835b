"""What happens as time passes, and the failures that a test client simulates, on a clock that the test advances."""

import pytest

from tests.waiting import eventually

from .conftest import World
from .remote import TTL


def test_a_lease_is_renewed(timed: World) -> None:
    client = timed.one
    lease = client.lock("job").acquire()
    renewed = client.do("stats")["renewed"]
    client.do("advance", ms=TTL * 3)
    assert client.do("stats")["renewed"] >= renewed + 6
    assert lease.held
    assert lease.remaining_ms > TTL / 2
    client.lock("job").is_refused()


def test_a_lease_without_renewal_expires(timed: World) -> None:
    client = timed.one
    lease = client.lock("job", renew=False).acquire()
    client.do("advance", ms=TTL // 2)
    assert lease.held
    assert lease.remaining_ms <= TTL / 2
    client.lock("job").is_refused()
    client.do("advance", ms=TTL)
    lease.is_lost("expired")
    assert client.do("stats")["lost"]["expired"] == 1
    # Its release, which raised the loss, has not deleted the key of the next holder.
    second = client.lock("job").acquire()
    lease.fails("release", "lost")
    assert second.held
    client.lock("job").is_refused()


def test_a_detached_lease_is_not_renewed(timed: World) -> None:
    client = timed.one
    lease = client.lock("job").acquire()
    assert lease.do("detach")["held"]
    assert client.do("list_leases")["tokens"] == []
    client.lock("job").is_refused()
    client.do("advance", ms=TTL)
    client.lock("job").acquire().release()
    assert not any(client.do("stats")["lost"].values())


def test_an_extension_sets_the_ttl_of_renewals(timed: World) -> None:
    client = timed.one
    lease = client.lock("job", ttl_ms=TTL).acquire()
    lease.extend(TTL * 4)
    client.do("advance", ms=TTL * 8)
    assert lease.do("held")["ttl_ms"] == TTL * 4
    assert lease.remaining_ms > TTL * 2


@pytest.mark.parametrize("attached", [False, True])
def test_max_hold_ends_a_renewed_lease(timed: World, attached: bool) -> None:
    client = timed.one
    lock = client.lock("job", max_hold_ms=TTL * 3)
    lease = lock.attach(client.hold("job").token) if attached else lock.acquire()
    client.do("advance", ms=TTL * 3 - 1000)
    assert lease.held
    client.do("advance", ms=1000)
    lease.is_lost("max_hold")
    client.lock("job").acquire(wait_ms=TTL)


def test_min_hold_ends(timed: World) -> None:
    client = timed.one
    lock = client.lock("job", ttl_ms=1000, min_hold_ms=TTL)
    lock.acquire().release()
    client.do("advance", ms=TTL - 1000)
    lock.is_refused()
    client.do("advance", ms=2000)
    lock.acquire().release()


def test_a_suspended_machine_loses_its_leases(timed: World) -> None:
    client = timed.one
    kept, lost = client.lock("kept", ttl_ms=TTL * 3).acquire(), client.lock("job").acquire()
    theirs = client.hold("theirs")
    client.do("jump", ms=TTL)
    # At that moment, also with renewal.
    lost.is_lost("expired")
    assert kept.held
    assert not theirs.held
    client.lock("theirs").acquire()


def test_a_wait_ends_on_the_clock(timed: World) -> None:
    client = timed.one
    theirs = client.hold("job", ttl_ms=TTL * 10)
    waiting = client.lock("job").start(wait_ms=TTL)
    eventually(lambda: client.waiting == 1)
    client.do("advance", ms=TTL)
    reply = waiting.reply()
    assert reply["code"] == "timeout"
    assert reply["waited_ms"] >= TTL
    assert theirs.held


def test_a_waiting_caller_acquires_an_expired_lock(timed: World) -> None:
    client = timed.one
    client.hold("job")
    waiting = client.lock("job", ttl_ms=TTL * 10).start()
    eventually(lambda: client.waiting == 1)
    client.do("jump", ms=TTL)
    assert waiting.lease().held


def test_hold_is_another_holder(timed: World) -> None:
    client = timed.client(nodes=["memory://"], key_prefix="app:")
    theirs = client.hold("job")
    assert theirs.keys == ["app:job"]
    lock = client.lock("job")
    lock.is_refused()
    assert "it is already held, and expires in" in lock.refusal()
    waiting = lock.start()
    theirs.release()
    lease = waiting.lease()
    lock.fails("hold", "timeout")
    assert lease.held


def test_lose_takes_the_lock_from_its_holder(timed: World) -> None:
    client = timed.one
    lease = client.lock("job").acquire()
    assert client.do("lose", name="job")["lost"]
    lease.is_lost("missing")
    assert not client.do("lose", name="job")["lost"]


def test_a_failed_node_is_unavailable_until_it_recovers(timed: World) -> None:
    client = timed.one
    lock, held = client.lock("job"), client.lock("held")
    lease = held.acquire()
    client.do("fail")
    for verb in ("acquire", "try", "inspect", "force_release", "hold"):
        (node,) = lock.fails(verb, "unavailable", wait_ms=0)["nodes"]
        assert (node["state"], node["error"]) == ("fault", "a test has this node fail")
    lease.fails("extend", "unavailable", ttl_ms=TTL)
    client.do("recover")
    held.is_refused()
    lease.extend(TTL)
    client.do("fail")
    client.do("advance", ms=TTL)
    lease.is_lost("expired")
    client.do("recover")
    held.acquire(wait_ms=TTL)


def test_a_test_client_has_its_own_node(timed: World) -> None:
    timed.one.lock("job").acquire()
    other = timed.client(nodes=["memory://"])
    other.lock("job").acquire()
    timed.two.lock("job").is_refused()
