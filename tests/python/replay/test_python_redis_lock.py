"""python-redis-lock 4.0.1: tests/test_redis_lock.py."""

import gc
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import redlock

from tests.servers import Server
from tests.waiting import eventually

from .. import processes
from .cases import Source

Call = Callable[..., Any]
THEIR_OWN = "tests/test_redis_lock.py"
THEIRS = Source("python-redis-lock", {THEIR_OWN: 43})
asks = THEIRS.asks
CROWD = 125
PROGRAM = (Path(__file__).with_name("program.py")).read_text()
effects = pytest.mark.parametrize("effect", ["", "gevent", "eventlet"])


def said(*words: str) -> list[str]:
    """Returns the output of a separate process that runs `program.py`."""
    with processes.run(PROGRAM, *words) as process:
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        return out.split()


def waits(lock: redlock.Lock, wait: float = 20) -> float:
    """Returns how long another client waits for the lock, in a separate thread."""

    def acquire() -> None:
        lock.acquire(wait=wait).release()

    began = time.monotonic()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(acquire).result()
    return time.monotonic() - began


@asks("foreign_value", THEIR_OWN)
def test_upgrade(ours: redlock.Redlock, r: Any, name: str, call: Call) -> None:
    r.set(name, b"\xd6{\xc93\xe9\xbd,\xdb\xb6\xa8<\x8ax\xd1<\xb9", nx=True, ex=60)
    assert call(ours.lock(name), "try_acquire") is None
    assert call(ours.lock(name), "inspect").held


@asks("writes", THEIR_OWN)
@effects
def test_simple(redis_server: Server, name: str, effect: str) -> None:
    assert said(redis_server.url, name, "hold", effect) == ["True", "False"]


@asks("renewal", THEIR_OWN)
@effects
def test_simple_auto_renewal(redis_server: Server, name: str, effect: str) -> None:
    assert said(redis_server.url, name, "renew", effect) == ["True", "False"]


@asks("excludes", THEIR_OWN)
def test_no_block(ours: redlock.Redlock, redis_server: Server, name: str) -> None:
    with ours.lock(name):
        assert said(redis_server.url, name, "try", "") == ["None"]


@asks("timeout", THEIR_OWN)
def test_timeout(ours: redlock.Redlock, another: redlock.Redlock, name: str, call: Call) -> None:
    lease = call(ours.lock(name), "acquire")
    began = time.monotonic()
    with pytest.raises(redlock.LockTimeout):
        call(another.lock(name), "acquire", wait=0.3)
    assert time.monotonic() - began > 0.29
    call(lease, "release")


@asks("ttl_as_text", THEIR_OWN)
@pytest.mark.parametrize("wait", ["0", "123"])
def test_timeout_int_conversion(
    ours: redlock.Redlock, r: Any, name: str, call: Call, wait: Any
) -> None:
    with pytest.raises(redlock.InvalidOption, match=f"wait is '{wait}'"):
        call(ours.lock(name), "acquire", wait=wait)
    assert r.get(name) is None
    call(call(ours.lock(name), "acquire", wait=0), "release")


@asks("expires", THEIR_OWN)
def test_timeout_expire(
    ours: redlock.Redlock, another: redlock.Redlock, name: str, call: Call
) -> None:
    lease = call(ours.lock(name, ttl=0.3, renew=False), "acquire")
    call(call(another.lock(name), "acquire", wait=20), "release")
    assert not lease.held


@asks("renewal", THEIR_OWN)
def test_timeout_expire_with_renewal(
    ours: redlock.Redlock, another: redlock.Redlock, name: str, call: Call, within: Call
) -> None:
    def body(_: redlock.Lease) -> None:
        with ThreadPoolExecutor(1) as pool, pytest.raises(redlock.LockTimeout):
            pool.submit(another.lock(name).acquire, wait=0.9).result()

    within(ours.lock(name, ttl=0.3), body)


@asks("waits", THEIR_OWN)
def test_timeout_acquired(ours: redlock.Redlock, redis_server: Server, name: str) -> None:
    with processes.run(PROGRAM, redis_server.url, name, "linger", "") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        assert ours.lock(name).try_acquire() is None
        assert 0.1 < waits(ours.lock(name)) < 10


@asks("timeout_rules", THEIR_OWN)
def test_not_usable_timeout(ours: redlock.Redlock, name: str, call: Call) -> None:
    with pytest.raises(redlock.InvalidOption, match="0 tries once"):
        call(ours.lock(name), "acquire", blocking=False, timeout=1)
    call(call(ours.lock(name, wait=0), "acquire", wait=1), "release")


@asks("timeout_rules", THEIR_OWN)
def test_expire_less_than_timeout(ours: redlock.Redlock, name: str, call: Call) -> None:
    for renew in (False, True):
        call(call(ours.lock(name, ttl=1, renew=renew), "acquire", wait=2), "release")


@asks("bad_times", THEIR_OWN)
@pytest.mark.parametrize("wait", [-123, -1, "foobar"])
def test_invalid_timeout(ours: redlock.Redlock, name: str, call: Call, wait: Any) -> None:
    with pytest.raises(ValueError, match=rf"wait (is|must be .*got) {wait!r}"):
        call(ours.lock(name), "acquire", wait=wait)


@asks("ttl_as_text", THEIR_OWN)
def test_expire_int_conversion(ours: redlock.Redlock, name: str) -> None:
    assert ours.lock(name, ttl=1).ttl == 1
    wrong: Any
    for wrong in (0, "1", "123"):
        with pytest.raises(redlock.InvalidOption, match="ttl is "):
            ours.lock(name, ttl=wrong)


@asks("expires", THEIR_OWN)
def test_expire(ours: redlock.Redlock, redis_server: Server, name: str) -> None:
    lease = ours.lock(name, ttl=0.5, renew=False).acquire()
    assert said(redis_server.url, name, "hold", "") == ["True", "False"]
    assert not lease.held
    ours.lock(name, wait=0).acquire().release()


@asks("expires", THEIR_OWN)
def test_expire_without_timeout(
    ours: redlock.Redlock, another: redlock.Redlock, name: str, call: Call
) -> None:
    call(ours.lock(name, ttl=0.5, renew=False), "acquire").detach()
    assert call(another.lock(name), "try_acquire") is None
    call(call(another.lock(name, ttl=1), "acquire"), "release")


@asks("extend_to", THEIR_OWN)
def test_extend(ours: redlock.Redlock, r: Any, name: str, call: Call) -> None:
    lease = call(ours.lock(name, ttl=100), "acquire")
    assert r.ttl(name) <= 100
    call(lease, "extend", 1000)
    assert r.ttl(name) > 100
    call(lease, "release")


@asks("extend_to", THEIR_OWN)
def test_extend_lock_default_expire(ours: redlock.Redlock, r: Any, name: str, call: Call) -> None:
    lease = call(ours.lock(name, ttl=1000, renew=False), "acquire")
    eventually(lambda: r.pttl(name) <= 999_800)
    call(lease, "extend")
    assert 999_800 < r.pttl(name) <= 1_000_000
    call(lease, "release")


@asks("extends_without_end", THEIR_OWN)
def test_extend_lock_without_expire_fail(
    ours: redlock.Redlock, r: Any, name: str, call: Call
) -> None:
    lease = call(ours.lock(name), "acquire")
    call(lease, "extend")
    assert 0 < r.ttl(name) <= 10
    call(lease, "release")


@asks("attach", THEIR_OWN)
def test_extend_another_instance(
    ours: redlock.Redlock, another: redlock.Redlock, r: Any, name: str, call: Call
) -> None:
    lease = call(ours.lock(name, ttl=100), "acquire")
    same = call(another, "attach", name, lease.token)
    call(same, "extend", 1000)
    assert r.ttl(name) > 100
    same.detach()
    call(lease, "release")


@asks("attach", THEIR_OWN)
def test_extend_another_instance_different_id_fail(
    ours: redlock.Redlock, another: redlock.Redlock, r: Any, name: str, call: Call
) -> None:
    lease = call(ours.lock(name, ttl=100), "acquire")
    with pytest.raises(redlock.LockLost):
        call(another, "attach", name, "another-id")
    assert 0 < r.ttl(name) <= 100
    call(lease, "release")


@asks("twice", THEIR_OWN)
def test_double_acquire(ours: redlock.Redlock, name: str, call: Call, one_owner: bool) -> None:
    lock = ours.lock(name)
    lease = call(lock, "acquire")
    with pytest.raises(redlock.LockTimeout, match="not reentrant" if one_owner else "already held"):
        call(lock, "acquire", wait=0)
    assert lease.held
    call(lease, "release")


@asks("with_refused", THEIR_OWN)
def test_enter_already_acquired_with_not_blocking(
    ours: redlock.Redlock, another: redlock.Redlock, name: str, call: Call, within: Call
) -> None:
    lease = call(ours.lock(name), "acquire")
    with pytest.raises(redlock.LockTimeout):
        within(another.lock(name, wait=0), lambda _: pytest.fail("nobody gave it"))
    call(lease, "release")


@asks("with", THEIR_OWN)
def test_plain(ours: redlock.Redlock, r: Any, name: str, within: Call) -> None:
    within(ours.lock(name), lambda _: None)
    assert r.get(name) is None


@asks("crowd", THEIR_OWN)
@pytest.mark.limit(200)
@pytest.mark.slow("a crowd of processes that begin together")
def test_no_overlap(redis_server: Server, name: str) -> None:
    words = said(redis_server.url, name, "crowd", "", str(CROWD))
    assert words == ["1"] * CROWD, f"two holders: {words}"


@asks("crowd", THEIR_OWN)
@pytest.mark.limit(200)
@pytest.mark.slow("a crowd of processes of which one keeps the lock")
def test_no_overlap2(redis_server: Server, name: str) -> None:
    words = said(redis_server.url, name, "keep", "", str(CROWD))
    assert words == ["1"], f"two holders: {words}"


@asks("reset", THEIR_OWN)
def test_reset(ours: redlock.Redlock, another: redlock.Redlock, name: str, call: Call) -> None:
    lease = call(ours.lock(name), "acquire")
    assert call(another, "force_release", name) is True
    call(call(another.lock(name), "try_acquire"), "release")
    with pytest.raises(redlock.LockLost):
        call(lease, "release")


def nobody_resets_all(ours: redlock.Redlock, another: redlock.Redlock, name: str) -> None:
    """`release_all` affects only the leases of the calling client."""
    lease = ours.lock(f"{name}-1").acquire()
    mine = another.lock(f"{name}-2").acquire()
    assert another.release_all() == 1
    assert (lease.held, mine.held) == (True, False)
    assert another.lock(f"{name}-1").try_acquire() is None
    lease.release()


@asks("reset_all")
def test_reset_all(ours: redlock.Redlock, another: redlock.Redlock, name: str) -> None:
    nobody_resets_all(ours, another, name)


@asks("token", THEIR_OWN)
def test_owner_id(ours: redlock.Redlock, name: str) -> None:
    options: Any = {"id": "foobar-identifier"}
    with pytest.raises(redlock.InvalidOption, match="attach"):
        ours.lock(name, **options)


@asks("owner", THEIR_OWN)
def test_get_owner_id(ours: redlock.Redlock, name: str, call: Call) -> None:
    lease = call(ours.lock(name), "acquire")
    assert call(ours.lock(name), "inspect").nodes[0].token == lease.token[:8]
    call(lease, "release")
    lock: Any = ours.lock(name)
    with pytest.raises(AttributeError, match=r"Use lease\.token, .*inspect"):
        lock.get_owner_id()


@asks("writes", THEIR_OWN)
def test_token(ours: redlock.Redlock, r: Any, name: str, call: Call) -> None:
    assert r.get(name) is None
    lease = call(ours.lock(name), "try_acquire")
    assert r.get(name) == lease.token
    call(lease, "release")


@asks("unacquired", THEIR_OWN)
def test_bogus_release(ours: redlock.Redlock, another: redlock.Redlock, r: Any, name: str) -> None:
    lock: Any = ours.lock(name)
    with pytest.raises(AttributeError, match=r"Use lease\.release\(\)"):
        lock.release()
    lease = lock.acquire()
    another.attach(name, lease.token).release()
    assert r.get(name) is None
    lease.detach()


@asks("signals", THEIR_OWN)
def test_release_from_nonblocking_leaving_garbage(
    ours: redlock.Redlock, r: Any, name: str, call: Call
) -> None:
    for _ in range(10):
        call(call(ours.lock(name), "try_acquire"), "release")
    assert r.keys(f"*{name}*") == []


@asks("no_renewal", THEIR_OWN)
def test_no_auto_renewal(ours: redlock.Redlock, r: Any, name: str, call: Call) -> None:
    call(ours.lock(name, ttl=0.3, renew=False), "acquire").detach()
    lease = call(ours.lock(name, ttl=0.3, renew=False), "acquire", wait=20)
    eventually(lambda: not lease.held)
    eventually(lambda: r.get(name) is None)


@asks("extends_without_end", THEIR_OWN)
def test_auto_renewal_bad_values(ours: redlock.Redlock, name: str) -> None:
    lock = ours.lock(name, ttl=None, renew=True)
    assert lock.ttl == 10


@asks("renewal", THEIR_OWN)
def test_auto_renewal(ours: redlock.Redlock, r: Any, name: str, call: Call) -> None:
    ours.lock(f"{name}-first").acquire().release()
    before = threading.active_count()
    lease = call(ours.lock(name, ttl=1), "acquire")
    # Its TTL is over by then.
    renewed = ours.stats().renewed
    eventually(lambda: ours.stats().renewed >= renewed + 4)
    assert r.get(name) == lease.token
    assert threading.active_count() <= before
    call(lease, "release")
    assert r.get(name) is None


@asks("signals", THEIR_OWN)
@pytest.mark.parametrize("method", ["release", "reset_all"])
def test_signal_expiration(
    ours: redlock.Redlock, r: Any, name: str, call: Call, method: str
) -> None:
    lease = call(ours.lock(name), "acquire")
    if method == "release":
        call(lease, "release")
    else:
        call(ours, "release_all")
    assert r.keys(f"*{name}*") == []


@asks("reset", THEIR_OWN)
def test_reset_signalizes(ours: redlock.Redlock, another: redlock.Redlock, name: str) -> None:
    lease = ours.lock(name, ttl=60).acquire()
    timer = threading.Timer(0.3, ours.force_release, [name])
    timer.start()
    # Less than the TTL, so the waiter was notified.
    assert waits(another.lock(name)) > 0.2
    timer.join()
    eventually(lambda: not lease.held)


@asks("reset_all", THEIR_OWN)
def test_reset_all_signalizes(ours: redlock.Redlock, another: redlock.Redlock, name: str) -> None:
    nobody_resets_all(ours, another, name)


@asks("collected", THEIR_OWN)
def test_auto_renewal_stops_after_gc(ours: redlock.Redlock, r: Any, name: str) -> None:
    lease = ours.lock(name, ttl=0.3).acquire()
    with pytest.warns(ResourceWarning, match=name):
        del lease
        gc.collect()
    eventually(lambda: r.get(name) is None)


@asks("token", THEIR_OWN)
def test_given_id(ours: redlock.Redlock, another: redlock.Redlock, r: Any, name: str) -> None:
    lease = ours.lock(name, ttl=100).acquire()
    same = another.attach(name, lease.token)
    same.extend(100)
    same.release()
    with pytest.raises(redlock.LockLost):
        lease.release()
    assert r.ttl(name) == -2


@asks("client_kinds", THEIR_OWN)
def test_strict_check() -> None:
    with pytest.raises(ValueError, match="a client is of type object"):
        redlock.Redlock.from_client(object())


@asks("bad_times", THEIR_OWN)
@pytest.mark.parametrize("ttl", [-1, -123, "-1"])
def test_borken_expires(ours: redlock.Redlock, name: str, call: Call, ttl: Any) -> None:
    with pytest.raises(ValueError, match=rf"ttl (is|must be .*got) {ttl!r}"):
        ours.lock(name, ttl=ttl)
    lease = call(ours.lock(name), "acquire")
    with pytest.raises(ValueError, match=rf"ttl (is|must be .*got) {ttl!r}"):
        call(lease, "extend", ttl)
    call(lease, "release")


@asks("locked", THEIR_OWN)
def test_locked_method(
    ours: redlock.Redlock, another: redlock.Redlock, name: str, call: Call
) -> None:
    both = [ours.lock(name), another.lock(name)]
    assert [call(lock, "inspect").held for lock in both] == [False, False]
    lease = call(both[0], "acquire")
    assert [call(lock, "inspect").held for lock in both] == [True, True]
    call(lease, "release")
