"""redis-py 8.1.0: tests/test_lock.py and tests/test_asyncio/test_lock.py."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Any

import pytest
import redlock

from tests.waiting import eventually

from .cases import Source

Call = Callable[..., Any]
SYNC, ASYNC = "tests/test_lock.py", "tests/test_asyncio/test_lock.py"
THEIRS = Source("redis-py", {SYNC: 32, ASYNC: 30})
asks = THEIRS.asks


@asks("without_end")
def test_lock(ours: redlock.Redlock, r: Any, name: str, call: Call) -> None:
    lease = call(ours.lock(name), "try_acquire")
    assert r.get(name) == lease.token
    assert 0 < r.ttl(name) <= 10
    call(lease, "release")
    assert r.get(name) is None


@asks("token")
def test_lock_token(ours: redlock.Redlock, r: Any, name: str, call: Call) -> None:
    with pytest.raises(redlock.InvalidOption, match="attach"):
        call(ours.lock(name), "acquire", token="test")
    assert r.get(name) is None
    lease = call(ours.lock(name), "acquire")
    call(call(ours, "attach", name, lease.token), "release")
    assert r.get(name) is None


@asks("token")
def test_lock_token_thread_local_false(ours: redlock.Redlock, name: str) -> None:
    options: Any = {"thread_local": False}
    with pytest.raises(redlock.InvalidOption, match="any thread"):
        ours.lock(name, **options)


@asks("locked")
def test_locked(ours: redlock.Redlock, name: str, call: Call) -> None:
    lock = ours.lock(name)
    assert call(lock, "inspect").held is False
    lease = call(lock, "try_acquire")
    assert call(lock, "inspect").held is True
    call(lease, "release")
    assert call(lock, "inspect").held is False


def owned(ours: redlock.Redlock, another: redlock.Redlock, name: str, call: Call) -> None:
    first = call(ours.lock(name), "try_acquire")
    assert first.held is True
    call(first, "release")
    assert first.held is False
    second = call(another.lock(name), "try_acquire")
    assert (first.held, second.held) == (False, True)
    call(second, "release")
    assert (first.held, second.held) == (False, False)


@asks("owned")
def test_owned(ours: redlock.Redlock, another: redlock.Redlock, name: str, call: Call) -> None:
    owned(ours, another, name, call)


@asks("owned")
def test_owned_with_decoded_responses(ours: redlock.Redlock, r: Any, name: str, call: Call) -> None:
    with redlock.Redlock.from_client(r, key_prefix="") as theirs:
        assert r.get_connection_kwargs()["decode_responses"]
        owned(ours, theirs, name, call)


@asks("excludes")
def test_competing_locks(
    ours: redlock.Redlock, another: redlock.Redlock, name: str, call: Call
) -> None:
    for first, second in ((ours, another), (another, ours)):
        lease = call(first.lock(name), "try_acquire")
        assert call(second.lock(name), "try_acquire") is None
        call(lease, "release")


@asks("ttl")
def test_timeout(ours: redlock.Redlock, r: Any, name: str, call: Call) -> None:
    lease = call(ours.lock(name, ttl=10), "try_acquire")
    assert 8 < r.ttl(name) <= 10
    call(lease, "release")


@asks("ttl")
def test_float_timeout(ours: redlock.Redlock, r: Any, name: str, call: Call) -> None:
    lease = call(ours.lock(name, ttl=9.5), "try_acquire")
    assert 8000 < r.pttl(name) <= 9500
    call(lease, "release")


@asks("blocking", ASYNC)
def test_blocking(ours: redlock.Redlock, name: str) -> None:
    assert ours.lock(name).wait is None
    assert ours.lock(name, wait=0).wait == 0


def gives_up(another: redlock.Redlock, name: str, call: Call) -> None:
    began = time.monotonic()
    with pytest.raises(redlock.LockTimeout):
        call(another.lock(name, wait=0.2), "acquire")
    assert time.monotonic() - began > 0.19


@asks("timeout")
def test_blocking_timeout(
    ours: redlock.Redlock, another: redlock.Redlock, name: str, call: Call
) -> None:
    lease = call(ours.lock(name), "try_acquire")
    gives_up(another, name, call)
    call(lease, "release")


@asks("with")
def test_context_manager(ours: redlock.Redlock, r: Any, name: str, within: Call) -> None:
    assert within(ours.lock(name, wait=0.2), lambda lease: r.get(name) == lease.token)
    assert r.get(name) is None


@asks("timeout", SYNC)
def test_context_manager_blocking_timeout(
    ours: redlock.Redlock, another: redlock.Redlock, name: str
) -> None:
    with ours.lock(name, wait=0):
        gives_up(another, name, lambda lock, _: lock.acquire())


@asks("with_refused")
def test_context_manager_raises_when_locked_not_acquired(
    ours: redlock.Redlock, r: Any, name: str, within: Call
) -> None:
    r.set(name, "bar")
    with pytest.raises(redlock.LockTimeout):
        within(ours.lock(name, wait=0.1), lambda _: pytest.fail("nobody gave it"))


def expires(lease: redlock.Lease) -> None:
    eventually(lambda: not lease.held)


@asks("with_lost_option")
def test_context_manager_not_raise_on_release_lock_not_owned_error(
    ours: redlock.Redlock, name: str, within: Call
) -> None:
    lock = ours.lock(name, ttl=0.1, renew=False)
    with pytest.raises(redlock.LockLost):
        within(lock, expires)
    with contextlib.suppress(redlock.LockLost):
        within(lock, expires)
    with pytest.raises(KeyError, match="the body's"):
        within(lock, lambda lease: [expires(lease), {}["the body's"]])


@asks("with_released")
def test_context_manager_not_raise_on_release_lock_error(
    ours: redlock.Redlock, r: Any, name: str, within: Call
) -> None:
    within(ours.lock(name), lambda lease: lease.release())
    assert r.get(name) is None


@asks("pause")
def test_high_sleep_small_blocking_timeout(ours: redlock.Redlock, name: str) -> None:
    options: Any = {"sleep": 60}
    with pytest.raises(redlock.InvalidOption, match="callers are notified"):
        ours.lock(name, **options)


def a_lock_has_no(verb: str, lock: Any, instead: str) -> None:
    with pytest.raises(AttributeError, match=instead):
        getattr(lock, verb)()


@asks("unacquired")
def test_releasing_unlocked_lock_raises_error(ours: redlock.Redlock, name: str) -> None:
    a_lock_has_no("release", ours.lock(name), r"Use lease\.release\(\)")


@asks("unacquired")
def test_extending_unlocked_lock_raises_error(ours: redlock.Redlock, name: str) -> None:
    a_lock_has_no("extend", ours.lock(name), r"Use lease\.extend\(")


@asks("unacquired")
def test_reacquiring_unlocked_lock_raises_error(ours: redlock.Redlock, name: str) -> None:
    a_lock_has_no("reacquire", ours.lock(name), r"Use lease\.extend\(")


def taken_from(ours: redlock.Redlock, r: Any, name: str, call: Call) -> Any:
    lease = call(ours.lock(name, ttl=10), "try_acquire")
    r.set(name, "a")
    return lease


@asks("release_lost")
def test_releasing_lock_no_longer_owned_raises_error(
    ours: redlock.Redlock, r: Any, name: str, call: Call
) -> None:
    lease = taken_from(ours, r, name, call)
    with pytest.raises(redlock.LockLost):
        call(lease, "release")
    assert not lease.held
    assert r.get(name) == "a"


@asks("release_lost")
def test_extending_lock_no_longer_owned_raises_error(
    ours: redlock.Redlock, r: Any, name: str, call: Call
) -> None:
    with pytest.raises(redlock.LockLost):
        call(taken_from(ours, r, name, call), "extend", 10)


@asks("release_lost")
def test_reacquiring_lock_no_longer_owned_raises_error(
    ours: redlock.Redlock, r: Any, name: str, call: Call
) -> None:
    with pytest.raises(redlock.LockLost):
        call(taken_from(ours, r, name, call), "extend")


@asks("release_lost", SYNC)
def test_context_manager_reacquiring_lock_no_longer_owned_raises_error(
    ours: redlock.Redlock, r: Any, name: str, within: Call
) -> None:
    with pytest.raises(redlock.LockLost):
        within(ours.lock(name, ttl=10, wait=0), lambda _: r.set(name, "a"))


def extended(ours: redlock.Redlock, r: Any, name: str, call: Call, ttl: float) -> None:
    lease = call(ours.lock(name, ttl=ttl, renew=False), "try_acquire")
    eventually(lambda: r.pttl(name) < ttl * 1000 - 90)
    call(lease, "extend", ttl)
    # Counted from now, and not longer.
    assert ttl * 1000 - 90 < r.pttl(name) <= ttl * 1000
    call(lease, "release")


@asks("extend_adds")
def test_extend_lock(ours: redlock.Redlock, r: Any, name: str, call: Call) -> None:
    extended(ours, r, name, call, 10)


@asks("extend_adds")
def test_extend_lock_float(ours: redlock.Redlock, r: Any, name: str, call: Call) -> None:
    extended(ours, r, name, call, 10.5)


@asks("extend_to")
def test_extend_lock_replace_ttl(ours: redlock.Redlock, r: Any, name: str, call: Call) -> None:
    extended(ours, r, name, call, 10)


@asks("extend_to")
def test_reacquire_lock(ours: redlock.Redlock, r: Any, name: str, call: Call) -> None:
    lease = call(ours.lock(name, ttl=10, renew=False), "try_acquire")
    r.pexpire(name, 5000)
    call(lease, "extend")
    assert 8000 < r.pttl(name) <= 10000
    call(lease, "release")


def never_without_end(ours: redlock.Redlock, r: Any, name: str, call: Call) -> None:
    lease = call(ours.lock(name, ttl=None), "try_acquire")
    assert lease.ttl == 10
    call(lease, "extend")
    assert 0 < r.ttl(name) <= 10
    call(lease, "release")


@asks("extends_without_end")
def test_extending_lock_with_no_timeout_raises_error(
    ours: redlock.Redlock, r: Any, name: str, call: Call
) -> None:
    never_without_end(ours, r, name, call)


@asks("extends_without_end")
def test_reacquiring_lock_with_no_timeout_raises_error(
    ours: redlock.Redlock, r: Any, name: str, call: Call
) -> None:
    never_without_end(ours, r, name, call)


@asks("extends_without_end", SYNC)
def test_context_manager_reacquiring_lock_with_no_timeout_raises_error(
    ours: redlock.Redlock, r: Any, name: str
) -> None:
    with ours.lock(name, ttl=None, wait=0) as lease:
        lease.extend()
        assert 0 < r.ttl(name) <= 10


@asks("with_refused", SYNC)
def test_lock_error_gives_correct_lock_name(ours: redlock.Redlock, r: Any, name: str) -> None:
    r.set(name, "bar")
    with pytest.raises(redlock.LockTimeout, match=name) as caught:
        ours.lock(name, wait=0.1).acquire()
    assert caught.value.resource == name


@asks("release_cancelled", ASYNC)
def test_release_cancellation_preserves_lock_state(
    ours: redlock.Redlock, r: Any, name: str
) -> None:
    async def main() -> None:
        lease = await ours.lock(name).as_async().acquire()

        async def give_back() -> None:
            await lease.release()

        # Cancelled before it begins, it leaves the lease held. Cancelled later, it releases.
        for turns, held in ((0, True), (1, False)):
            releasing = asyncio.create_task(give_back())
            for _ in range(turns):
                await asyncio.sleep(0)
            releasing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await releasing
            assert lease.held is held
        await lease.release()
        assert not (await ours.lock(name).as_async().inspect()).held

    asyncio.run(main())
    assert r.get(name) is None


@asks("lock_class")
def test_lock_class_argument(ours: redlock.Redlock, name: str) -> None:
    options: Any = {"lock_class": object}
    with pytest.raises(redlock.InvalidOption, match="one kind of lock"):
        ours.lock(name, **options)
