"""pottery 3.0.1: tests/test_redlock.py and tests/test_aioredlock.py."""

import asyncio
import itertools
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

import pytest
import redlock

from tests.ports import free_port
from tests.servers import Server
from tests.waiting import eventually

from .cases import Source

Call = Callable[..., Any]
SYNC, ASYNC = "tests/test_redlock.py", "tests/test_aioredlock.py"
THEIRS = Source("pottery", {SYNC: 32, ASYNC: 19})
asks = THEIRS.asks


@pytest.fixture
def broken() -> redlock.Redlock:
    """Yields a client whose node is down."""
    return redlock.Redlock(f"redis://127.0.0.1:{free_port()}", key_prefix="")


@asks("too_short")
def test_acquire_fails_within_auto_release_time(ours: redlock.Redlock, name: str) -> None:
    with pytest.raises(redlock.InvalidOption, match=r"at least 0\.1 s"):
        ours.lock(name, ttl=0.001)


@asks("too_short", ASYNC)
def test_context_manager_fails_within_auto_release_time(
    redis_server: Server, name: str, within: Call
) -> None:
    with redlock.Redlock(redis_server.url, key_prefix="") as client:
        client.lock(f"{name}-first").acquire().release()
        redis_server.freeze()
        try:
            # No reply arrives in time, so the lock is not acquired.
            with pytest.raises(redlock.QuorumUnavailable):
                within(client.lock(name, ttl=0.1, wait=0), lambda _: pytest.fail("too late"))
        finally:
            redis_server.thaw()


@asks("expires")
def test_acquire_and_time_out(ours: redlock.Redlock, r: Any, name: str, call: Call) -> None:
    lease = call(ours.lock(name, ttl=0.2, renew=False), "acquire")
    assert r.exists(name)
    eventually(lambda: not lease.held)
    eventually(lambda: not ours.lock(name).inspect().held)
    assert not r.exists(name)


@asks("twice", SYNC)
def test_acquire_same_lock_twice_blocking_without_timeout(
    ours: redlock.Redlock, name: str, call: Call, one_owner: bool
) -> None:
    lock = ours.lock(name, ttl=0.5, renew=False)
    began = time.monotonic()
    first = call(lock, "acquire")
    warning = pytest.warns(RuntimeWarning, match="not reentrant") if one_owner else nullcontext()
    with warning:
        second = call(lock, "acquire")
    assert time.monotonic() - began > 0.4
    assert (first.held, second.held) == (False, True)
    call(second, "release")


@asks("timeout", ASYNC)
def test_enqueued(ours: redlock.Redlock, another: redlock.Redlock, name: str, call: Call) -> None:
    call(ours.lock(name, ttl=0.3, renew=False), "acquire").detach()
    lease = call(another.lock(name, ttl=10), "acquire")
    with pytest.raises(redlock.LockTimeout):
        call(ours.lock(name), "acquire", wait=0.1)
    call(lease, "release")


@asks("twice", SYNC)
def test_acquire_same_lock_twice_non_blocking_without_timeout(
    ours: redlock.Redlock, r: Any, name: str, call: Call
) -> None:
    lock = ours.lock(name, ttl=0.3, renew=False)
    lease = call(lock, "acquire")
    assert call(lock, "try_acquire") is None
    assert r.exists(name)
    eventually(lambda: not lease.held)
    eventually(lambda: not ours.lock(name).inspect().held)
    assert not r.exists(name)


def one_option(ours: redlock.Redlock, name: str, call: Call) -> None:
    """A single option says whether and how long to wait, so no contradiction is possible."""
    with pytest.raises(ValueError, match="0 tries once"):
        call(ours.lock(name), "acquire", blocking=False, timeout=0)
    call(call(ours.lock(name), "acquire", wait=0), "release")


@asks("timeout_rules", SYNC)
def test_acquire_same_lock_twice_non_blocking_with_timeout(
    ours: redlock.Redlock, name: str, call: Call
) -> None:
    one_option(ours, name, call)


@asks("timeout_rules", ASYNC)
def test_acquire_nonblocking_with_timeout(ours: redlock.Redlock, name: str, call: Call) -> None:
    one_option(ours, name, call)


def no_such_option(ours: redlock.Redlock, name: str) -> None:
    options: Any
    for options in ({"context_manager_blocking": False}, {"context_manager_timeout": 0.2}):
        with pytest.raises(ValueError, match="Use wait"):
            ours.lock(name, **options)


@asks("timeout_rules", SYNC)
def test_invalid_context_manager_params(ours: redlock.Redlock, name: str) -> None:
    no_such_option(ours, name)


@asks("timeout_rules", ASYNC)
def test_context_manager_nonblocking_with_timeout(ours: redlock.Redlock, name: str) -> None:
    no_such_option(ours, name)


@asks("locked", SYNC)
def test_acquired(ours: redlock.Redlock, name: str, call: Call) -> None:
    lock = ours.lock(name, ttl=0.3, renew=False)
    assert not call(lock, "inspect").held
    lease = call(lock, "acquire")
    assert call(lock, "inspect").held
    eventually(lambda: not lease.held)
    eventually(lambda: not ours.lock(name).inspect().held)
    assert not call(lock, "inspect").held


def extends_without_count(lock: redlock.Lock, call: Call) -> None:
    wrong: Any = lock
    with pytest.raises(AttributeError, match=r"Use lease\.extend"):
        wrong.extend()
    lease = call(lock, "acquire")
    for _ in range(5):
        call(lease, "extend", 60)
    # The time limits the lease, not the number of extensions.
    assert 0 < lease.remaining <= 2
    call(lease, "release")


@asks("extend_count")
def test_extend(ours: redlock.Redlock, name: str, call: Call) -> None:
    extends_without_count(ours.lock(name, max_hold=2), call)


@asks("extend_count", ASYNC)
def test_context_manager_extend(ours: redlock.Redlock, name: str, within: Call) -> None:
    assert within(ours.lock(name), lambda lease: [lease.extend() for _ in range(5)])


@asks("writes", SYNC)
def test_acquire_then_release(ours: redlock.Redlock, r: Any, name: str, call: Call) -> None:
    lease = call(ours.lock(name), "acquire")
    assert r.exists(name)
    call(lease, "release")
    assert not r.exists(name)


@asks("unacquired", SYNC)
def test_release_unlocked_lock(ours: redlock.Redlock, name: str) -> None:
    lock: Any = ours.lock(name)
    with pytest.raises(AttributeError, match=r"Use lease\.release\(\)"):
        lock.release()


@asks("texts", SYNC)
def test_releaseunlockedlock_repr(name: str, call: Call) -> None:
    url = f"redis://:s3cret@127.0.0.1:{free_port()}"
    with pytest.raises(redlock.QuorumUnavailable) as caught:
        call(redlock.Redlock(url).lock(name, wait=0), "acquire")
    assert f"lock:{name}" in repr(caught.value)
    assert "s3cret" not in repr(caught.value)


def twice(ours: redlock.Redlock, another: redlock.Redlock, name: str, call: Call) -> None:
    lease = call(ours.lock(name), "acquire")
    call(lease, "release")
    next_one = call(another.lock(name), "acquire")
    call(lease, "release")
    assert next_one.held
    assert call(ours.lock(name), "inspect").held
    call(next_one, "release")


@asks("released_twice", SYNC)
def test_release_same_lock_twice(
    ours: redlock.Redlock, another: redlock.Redlock, name: str, call: Call
) -> None:
    twice(ours, another, name, call)


@asks("released_twice", ASYNC)
def test_locked_acquire_and_release(
    ours: redlock.Redlock, another: redlock.Redlock, name: str, call: Call
) -> None:
    twice(ours, another, name, call)
    assert not call(ours.lock(name), "inspect").held


@asks("with")
def test_context_manager(ours: redlock.Redlock, r: Any, name: str, within: Call) -> None:
    assert within(ours.lock(name), lambda _: r.exists(name))
    assert not r.exists(name)


@asks("with", SYNC)
def test_context_manager_acquired(ours: redlock.Redlock, r: Any, name: str, within: Call) -> None:
    assert within(ours.lock(name), lambda lease: lease.held and r.exists(name))
    assert not ours.lock(name).inspect().held


def ends_inside(ours: redlock.Redlock, r: Any, name: str, within: Call) -> None:
    def body(lease: redlock.Lease) -> None:
        told: list[str | None] = []
        lease.on_lost(lambda error: told.append(error.reason))
        eventually(lambda: not lease.held)
        eventually(lambda: not r.exists(name))

    with pytest.raises(redlock.LockLost) as caught:
        within(ours.lock(name, ttl=0.2, renew=False), body)
    assert caught.value.reason == "expired"


@asks("with_lost")
def test_context_manager_time_out_before_exit(
    ours: redlock.Redlock, r: Any, name: str, within: Call
) -> None:
    ends_inside(ours, r, name, within)


@asks("with_lost", SYNC)
def test_context_manager_acquired_time_out_before_exit(
    ours: redlock.Redlock, r: Any, name: str, within: Call
) -> None:
    ends_inside(ours, r, name, within)


@asks("with_released")
def test_context_manager_release_before_exit(
    ours: redlock.Redlock, r: Any, name: str, within: Call
) -> None:
    within(ours.lock(name), lambda lease: lease.release())
    assert not r.exists(name)


@asks("waits", SYNC)
def test_default_context_manager_params(
    ours: redlock.Redlock, another: redlock.Redlock, name: str, within: Call
) -> None:
    first = ours.lock(name, ttl=0.3, renew=False).acquire()
    assert within(another.lock(name), lambda lease: lease.held)
    assert not first.held


@asks("with_refused", SYNC)
def test_overridden_context_manager_params(
    ours: redlock.Redlock, another: redlock.Redlock, name: str, within: Call
) -> None:
    with ours.lock(name), pytest.raises(redlock.LockTimeout):
        within(another.lock(name, wait=0), lambda _: pytest.fail("nobody gave it"))


@asks("texts")
def test_repr(ours: redlock.Redlock) -> None:
    assert repr(ours.lock("printer")) == "<redlock.Lock printer>"


@asks("slots")
def test_slots(ours: redlock.Redlock, name: str) -> None:
    lock: Any = ours.lock(name)
    with pytest.raises(AttributeError):
        lock.other = 1


@asks("node_false")
def test_acquire_rediserror(broken: redlock.Redlock, name: str, call: Call) -> None:
    with pytest.raises(redlock.QuorumUnavailable):
        call(broken.lock(name), "try_acquire")


@asks("node_raises", SYNC)
def test_acquire_quorumisimpossible(broken: redlock.Redlock, name: str, call: Call) -> None:
    with pytest.raises(redlock.QuorumUnavailable, match="refused"):
        call(broken.lock(name, wait=0), "acquire")


@asks("node_false")
def test_locked_rediserror(broken: redlock.Redlock, name: str, call: Call) -> None:
    with pytest.raises(redlock.QuorumUnavailable):
        call(broken.lock(name), "inspect")


@asks("node_raises", SYNC)
def test_locked_quorumisimpossible(broken: redlock.Redlock, name: str, call: Call) -> None:
    with pytest.raises(redlock.QuorumUnavailable, match="refused"):
        call(broken.lock(name), "inspect")


def fails(redis_server: Server, name: str, call: Call, verb: str) -> None:
    """The server stops replying. Operations on a lease raise an error, and the lease is still held."""
    with redlock.Redlock(redis_server.url, key_prefix="", node_timeout=0.3) as client:
        lease = call(client.lock(name, ttl=20), "acquire")
        redis_server.freeze()
        try:
            with pytest.raises(redlock.QuorumUnavailable) as caught:
                call(lease, verb)
            assert not isinstance(caught.value, redlock.LockLost)
            assert lease.held is (verb == "extend")
        finally:
            redis_server.thaw()


@asks("release_failed")
def test_extend_rediserror(redis_server: Server, name: str, call: Call) -> None:
    fails(redis_server, name, call, "extend")


@asks("node_raises", SYNC)
def test_extend_quorumisimpossible(redis_server: Server, name: str, call: Call) -> None:
    fails(redis_server, name, call, "extend")


@asks("release_failed")
def test_release_rediserror(redis_server: Server, name: str, call: Call) -> None:
    fails(redis_server, name, call, "release")


@asks("node_raises", SYNC)
def test_release_quorumisimpossible(redis_server: Server, name: str, call: Call) -> None:
    fails(redis_server, name, call, "release")


@asks("split")
@pytest.mark.parametrize("how_many", range(1, 11))
def test_contention(name: str, call: Call, how_many: int) -> None:
    nodes = [f"memory://{name}-{node}" for node in range(5)]
    clients = [redlock.Redlock(nodes, key_prefix="") for _ in range(how_many)]
    with ThreadPoolExecutor(how_many) as pool:
        tries = [pool.submit(client.lock(name, ttl=5).try_acquire) for client in clients]
        leases = [lease for each in tries if (lease := each.result())]
    assert len(leases) <= 1
    assert how_many > 1 or leases
    for lease in leases:
        call(lease, "release")
    # No remaining vote keeps the next client out.
    call(call(clients[0].lock(name), "acquire", wait=20), "release")


@asks("decorator", SYNC)
def test_synchronize(ours: redlock.Redlock, name: str) -> None:
    @ours.lock(name)
    def work() -> tuple[float, float]:
        begin = time.monotonic()
        # Runs for as long as the others wait.
        eventually(lambda: ours.stats().waiting + len(worked) == 2)
        worked.append(None)
        return begin, time.monotonic()

    worked: list[None] = []
    with ThreadPoolExecutor(3) as pool:
        times = sorted(each.result() for each in [pool.submit(work) for _ in range(3)])
    for (_, end), (begin, _) in itertools.pairwise(times):
        assert end <= begin, f"two holders: {times}"


@asks("decorator", SYNC)
def test_synchronize_fails(ours: redlock.Redlock, another: redlock.Redlock, name: str) -> None:
    @another.lock(name, wait=0)
    def work() -> None:
        raise NotImplementedError

    @another.lock(name, wait=0)
    async def awork() -> None:
        raise NotImplementedError

    with ours.lock(name):
        with pytest.raises(redlock.LockTimeout):
            work()
        with pytest.raises(redlock.LockTimeout):
            asyncio.run(awork())
