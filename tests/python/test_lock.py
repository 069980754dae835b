"""The methods of locks, leases and clients: each once, sync and async, over memory:// and over a server."""

import asyncio
import re
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import redlock

from tests.waiting import eventually

from .servers import Server

Call = Callable[..., Any]


def test_one_holder_at_a_time(client: redlock.Redlock, name: str, call: Call) -> None:
    lock = client.lock(name, ttl=5)
    lease = call(lock, "acquire")
    assert lease.held
    assert 4 < lease.remaining < 5
    assert call(lock, "try_acquire") is None
    call(lease, "release")
    assert not lease.held
    assert lease.remaining == 0
    other = call(lock, "try_acquire")
    assert other.token != lease.token
    call(other, "release")


def test_key_on_the_server_contains_the_token(
    redis_client: redlock.Redlock, redis_server: Server, name: str, call: Call
) -> None:
    lease = call(redis_client.lock(name, ttl=5), "acquire")
    assert lease.key == f"lock:{name}"
    assert redis_server.client.get(lease.key) == lease.token
    assert 4000 < redis_server.client.pttl(lease.key) <= 5000
    call(lease, "release")
    assert redis_server.client.get(lease.key) is None


def test_acquire_times_out_after_wait(client: redlock.Redlock, name: str, call: Call) -> None:
    lock = client.lock(name, ttl=5)
    lease = client.lock(name, ttl=5).acquire()
    done = threading.Event()

    def contend() -> None:
        begun = time.monotonic()
        with pytest.raises(redlock.LockTimeout) as caught:
            call(lock, "acquire", wait=0.3)
        assert time.monotonic() - begun > 0.29
        error = caught.value
        assert isinstance(error, TimeoutError)
        assert error.code == "timeout"
        assert error.resource == f"lock:{name}"
        assert error.waited is not None
        assert error.waited > 0.29
        assert error.remaining is not None
        assert 0 < error.remaining <= 5
        assert f"lock:{name}" in str(error)
        done.set()

    thread = threading.Thread(target=contend)
    thread.start()
    thread.join()
    assert done.is_set()
    lease.release()


def test_waiter_acquires_after_the_release(client: redlock.Redlock, name: str, call: Call) -> None:
    lease = client.lock(name, ttl=5).acquire()
    # A different owner than the first one, because an owner that waits for itself gets a warning, which is an error
    # here.
    with_other_owner: list[Any] = []
    thread = threading.Thread(
        target=lambda: with_other_owner.append(call(client.lock(name, ttl=5), "acquire", wait=60))
    )
    thread.start()
    eventually(lambda: client.stats().waiting == 1)
    assert not with_other_owner
    lease.release()
    thread.join()
    assert 4 < with_other_owner[0].remaining <= 5
    call(with_other_owner[0], "release")


def test_extend_never_shortens(client: redlock.Redlock, name: str, call: Call) -> None:
    lease = call(client.lock(name, ttl=2, renew=False), "acquire")
    call(lease, "extend", 20)
    assert 19 < lease.remaining <= 20
    assert lease.ttl == 20
    call(lease, "extend", timedelta(seconds=1))
    assert lease.remaining > 19
    call(lease, "release")


def test_lease_without_renewal_expires(client: redlock.Redlock, name: str, call: Call) -> None:
    lease = call(client.lock(name, ttl=0.3, renew=False), "acquire")
    eventually(lambda: not lease.held)
    with pytest.raises(redlock.LockLost) as caught:
        lease.ensure_held()
    assert caught.value.reason == "expired"
    for verb in ("extend", "release"):
        with pytest.raises(redlock.LockLost):
            call(lease, verb)


def test_renewed_lease_outlives_its_ttl(client: redlock.Redlock, name: str, call: Call) -> None:
    # A busy machine may delay a renewal by more than a second.
    with client.lock(name, ttl=2).acquire() as lease:
        before = client.stats().renewed
        # Its TTL is over by then.
        eventually(lambda: client.stats().renewed >= before + 4)
        assert lease.held
        assert call(client.lock(name), "try_acquire") is None


def test_max_hold_ends_the_lease(client: redlock.Redlock, name: str, call: Call) -> None:
    began = time.monotonic()
    lease = call(client.lock(name, ttl=0.3, max_hold=0.6), "acquire")
    eventually(lambda: not lease.held)
    assert time.monotonic() - began > 0.45
    with pytest.raises(redlock.LockLost) as caught:
        call(lease, "release")
    assert caught.value.reason == "max_hold"


def test_min_hold_keeps_the_key(client: redlock.Redlock, name: str, call: Call) -> None:
    begun = time.monotonic()
    lock = client.lock(name, ttl=30, min_hold=timedelta(seconds=1))
    lease = call(lock, "acquire")
    call(lease, "release")
    assert not lease.held
    assert call(lock, "try_acquire") is None
    with lock.acquire(wait=60):
        assert time.monotonic() - begun > 0.98
    client.force_release(name)


def test_a_second_release_does_nothing(client: redlock.Redlock, name: str, call: Call) -> None:
    lease = call(client.lock(name), "acquire")
    call(lease, "release")
    other = call(client.lock(name), "acquire")
    call(lease, "release")
    assert other.held
    assert call(client.lock(name), "try_acquire") is None
    call(other, "release")


def test_several_names_are_one_lease(client: redlock.Redlock, name: str, call: Call) -> None:
    both = client.lock([f"{name}-a", f"{name}-b"])
    lease = call(both, "acquire")
    assert lease.keys == [f"lock:{name}-a", f"lock:{name}-b"]
    assert call(client.lock(f"{name}-b"), "try_acquire") is None
    call(lease, "release")
    other = call(client.lock(f"{name}-b"), "acquire")
    assert call(both, "try_acquire") is None
    other.release()


def test_attach_continues_a_lease(redis_server: Server, name: str, call: Call) -> None:
    with redlock.Redlock(redis_server.url) as one, redlock.Redlock(redis_server.url) as two:
        first = one.lock(name, ttl=5).acquire()
        second = call(two, "attach", name, first.token, ttl=5)
        assert second.token == first.token
        call(second, "release")
        assert redis_server.client.get(first.key) is None
        with pytest.raises(
            redlock.LockLost, match=r"not attached.*the key does not exist"
        ) as caught:
            call(two, "attach", name, first.token, ttl=5)
        assert caught.value.reason == "missing"
        with pytest.raises(redlock.LockLost):
            first.release()
        held = one.lock(name).acquire()
        with pytest.raises(
            redlock.LockLost, match=r"not attached.*token of another owner"
        ) as caught:
            call(two, "attach", name, "wrong", ttl=5)
        held.release()
        assert caught.value.reason == "taken"
        assert "ago" not in str(caught.value)


def test_detach_ends_the_lease_and_keeps_the_key(
    redis_server: Server, name: str, call: Call
) -> None:
    with redlock.Redlock(redis_server.url) as client:
        with call(client.lock(name, ttl=2), "acquire") as lease:
            notified: list[redlock.LockLost] = []
            lease.on_lost(notified.append)
            assert lease.detach()
            assert not lease.held
            assert not lease.detach()
            assert repr(lease).endswith("detached>")
        call(lease, "release")
        assert redis_server.client.get(lease.key) == lease.token
        assert client.leases() == []
        # It is not renewed any more, and its end is not a loss.
        call(client.lock(name, wait=5), "acquire").release()
        assert notified == []


def test_cancelled_attach_does_not_affect_the_lease(
    redis_client: redlock.Redlock, redis_server: Server, name: str
) -> None:
    def asked() -> int:
        return int(redis_server.client.info("commandstats")["cmdstat_evalsha"]["calls"])

    lease = redis_client.lock(name).acquire()

    async def main() -> None:
        before = asked()
        site = (main.__code__, 0)
        attaching: Any = redis_client.lock(name)._attach(site, lease.token)
        eventually(lambda: asked() > before)  # the reply arrives while the loop is blocked
        assert asyncio.isfuture(attaching)
        attaching.cancel()
        # Ordered after every command for it.
        await (await redis_client.lock(f"{name}-next").as_async().acquire()).release()

    asyncio.run(main())
    lease.extend()
    lease.release()


def test_an_attached_lease_has_no_fencing_token(
    redis_client: redlock.Redlock, name: str, call: Call
) -> None:
    lock = redis_client.lock(name, fencing=True)
    lease = lock.acquire()
    attached = call(lock, "attach", lease.token)
    assert lease.detach()
    with pytest.raises(redlock.InvalidOption, match="send it with the token"):
        _ = attached.fencing_token
    call(attached, "release")
    with lock.acquire() as later:
        assert later.fencing_token > lease.fencing_token


def test_inspect_reports_the_state_and_the_holder(
    client: redlock.Redlock, name: str, call: Call
) -> None:
    lock = client.lock(name, ttl=5)
    free = call(lock, "inspect")
    assert not free.held
    assert [node.state for node in free.nodes] == ["free"]
    with lock.acquire() as lease:
        held = call(lock, "inspect")
        assert held.held
        assert 4 < held.remaining <= 5
        (node,) = held.nodes
        assert (node.state, node.token, node.key) == ("held", lease.token[:8], lease.key)


def test_force_release_notifies_the_holder(client: redlock.Redlock, name: str, call: Call) -> None:
    lease = call(client.lock(name), "acquire")
    assert call(client, "force_release", name) is True
    with pytest.raises(redlock.LockLost) as caught:
        call(lease, "release")
    assert caught.value.reason == "missing"
    assert call(client, "force_release", name) is False


def test_leases_lists_held_leases_and_release_all_ends_them(
    client: redlock.Redlock, name: str, call: Call
) -> None:
    kept = [call(client.lock(f"{name}-{number}"), "acquire") for number in range(3)]
    assert set(client.leases()) == set(kept)
    call(kept[0], "release")
    assert set(client.leases()) == set(kept[1:])
    assert call(client, "release_all") == 2
    assert client.leases() == []
    assert not any(lease.held for lease in kept)


def test_closed_client_ends_its_leases_and_refuses_acquires(
    client: redlock.Redlock, name: str, call: Call
) -> None:
    lease = call(client.lock(name), "acquire")
    client.close()
    with pytest.raises(redlock.LockLost) as lost:
        lease.ensure_held()
    assert lost.value.reason == "closed"
    with pytest.raises(redlock.ClientClosed) as closed:
        call(client.lock(f"{name}-2"), "acquire")
    assert closed.value.code == "closed"


def test_unreachable_node_raises_quorum_unavailable(name: str, call: Call) -> None:
    with redlock.Redlock("redis://:secret@127.0.0.1:1") as client:
        with pytest.raises(redlock.QuorumUnavailable) as caught:
            call(client.lock(name, ttl=0.5), "acquire", wait=0)
        error = caught.value
        assert isinstance(error, ConnectionError)
        assert "secret" not in str(error)
        (node,) = error.nodes
        assert node.state == "fault"
        assert node.error


def test_redis_py_and_redlock_exclude_each_other(
    redis_client: redlock.Redlock, redis_server: Server, name: str
) -> None:
    theirs = redis_server.client.lock(f"lock:{name}", timeout=5, blocking=False)
    with redis_client.lock(name).acquire():
        assert not theirs.acquire()
    assert theirs.acquire()
    assert redis_client.lock(name).try_acquire() is None
    theirs.release()


def test_attributes_of_a_lock_can_be_read(client: redlock.Redlock, name: str) -> None:
    lock = client.lock(name)
    assert (lock.name, lock.ttl, lock.wait) == (name, 10.0, None)
    lock = redlock.lock(["a", "b"], ttl=0.5, wait=0)
    assert (lock.name, lock.ttl, lock.wait) == ("a, b", 0.5, 0.0)
    # A function chooses the name at each call.
    assert redlock.lock(lambda user: f"report:{user}").name == ""
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*", redlock.__version__)


def test_repr_of_an_inspection_shows_its_fields(redis_client: redlock.Redlock, name: str) -> None:
    found = redis_client.lock(name).inspect()
    (url,) = redis_client.nodes
    assert repr(found) == (
        "Inspection(held=False, mode=None, taken=0, limit=1, remaining=None, label=None, nodes=["
        f"NodeInspection(url='{url}', key='lock:{name}', state='free', remaining=None, "
        "token=None, label=None, error=None)])"
    )
    with redis_client.lock(name):
        found = redis_client.lock(name).inspect()
    assert (
        f"Inspection(held=True, mode=None, taken=1, limit=1, remaining={found.remaining}, label=None, nodes=["
        in repr(found)
    )
    assert f"token='{found.nodes[0].token}'" in repr(found)
