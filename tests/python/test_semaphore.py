"""Semaphores in Python: every way to use a lock, options and mistakes. `conformance/test_semaphore.py` has the rest."""

import asyncio
import pickle
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import pytest
import redlock
import redlock.testing
from redlock.testing import TestRedlock

from tests.servers import Server

Call = Callable[..., Any]


@pytest.fixture
def fake() -> Iterator[TestRedlock]:
    with TestRedlock() as client:
        yield client


def test_scopes_share_the_permits(redis_server: Server, name: str) -> None:
    with redlock.Redlock(redis_server.url) as client:
        pool = client.semaphore(name, 2, ttl=20, wait=0)
        with pool as one, pool as two:
            assert sorted(one.keys + two.keys) == [f"{{lock:{name}}}#{at}" for at in range(2)]
            assert one.key == pool.key == f"lock:{name}"
            assert pool.try_acquire() is None
            assert "held=True, mode=None, taken=2, limit=2" in repr(pool.inspect())
        assert redis_server.client.keys(f"*{name}*") == []


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_async_scopes_share_the_permits(fake: TestRedlock, backend: str) -> None:
    async def body() -> None:
        pool = fake.as_async().semaphore("pool", 2)
        async with pool, pool:
            assert await pool.try_acquire() is None

    anyio.run(body, backend=backend)


def test_decorated_functions_share_the_permits(fake: TestRedlock) -> None:
    @fake.semaphore("export:{user}", 2, wait=0, default="busy")
    def export(user: str, depth: int) -> list[str]:
        return [user, *(export(user, depth - 1) if depth else [])]

    assert export("eve", 1) == ["eve", "eve"]
    assert export("eve", 2) == ["eve", "eve", *"busy"]

    @fake.as_async().semaphore("export:{user}", 2, wait=0, default="busy")
    async def async_export(user: str) -> str:
        return await async_export(user)

    assert asyncio.run(async_export("eve")) == "busy"


def test_default_client_has_semaphores() -> None:
    redlock.configure("memory://", replace=True)
    with redlock.semaphore("pool", 1) as lease:
        assert lease.keys == ["{lock:pool}#0"]
        assert redlock.semaphore("pool", 1).try_acquire() is None
        with redlock.semaphore("pool", 2, wait=0) as other:
            assert other.keys == ["{lock:pool}#1"]


def test_pickle_of_a_semaphore(redis_server: Server, name: str) -> None:
    with redlock.Redlock(redis_server.url) as client:
        pool = client.semaphore(name, 3, permits=2, ttl=7, min_hold=0.2)
        for same in (pickle.loads(pickle.dumps(pool)), pickle.loads(pickle.dumps(pool.as_async()))):
            assert same.keys == pool.keys
        again = pickle.loads(pickle.dumps(pool))
        with again as lease:
            assert len(lease.keys) == 2
            assert lease.ttl == 7
            assert pool.try_acquire() is None


def test_test_clients_accept_a_semaphore(fake: TestRedlock, call: Call) -> None:
    pool = fake.semaphore("pool", 2, ttl=60)
    theirs = call(fake, "hold", pool)
    assert theirs.ttl == 60
    ours = call(pool, "acquire")
    assert call(pool, "try_acquire") is None
    assert call(fake, "lose", pool) is True
    assert not ours.held
    assert call(fake, "force_release", pool) is False
    assert call(fake, "lose", fake.lock("job")) is False


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"limit": -1}, "limit must be a whole number, 1 or more (got -1)"),
        ({"limit": 2.5}, "limit must be a whole number, 1 or more (got 2.5)"),
        ({"limit": 2, "permits": -1}, "permits must be a whole number, 1 or more (got -1)"),
        ({"limit": "five"}, "limit is 'five': it must be a whole number"),
        ({"limit": True}, "limit is True: it must be a whole number"),
        ({"limit": 2, "fencing": True}, "semaphore() has no option 'fencing'"),
        ({"limit": 2, "max_count": 3}, "Use semaphore() with limit, the number of permits"),
    ],
)
def test_wrong_options(fake: TestRedlock, options: "dict[str, Any]", text: str) -> None:
    semaphore: Any = fake.semaphore
    with pytest.raises(redlock.InvalidOption) as caught:
        semaphore("pool", **options)
    assert text in str(caught.value)


def test_other_permits_are_no_reentry(fake: TestRedlock, recwarn: pytest.WarningsRecorder) -> None:
    with fake.lock("pool"), fake.semaphore("pool", 2), fake.semaphore("pool", 2):
        assert not recwarn.list


def test_caller_that_waits_for_its_own_permits_is_warned(fake: TestRedlock) -> None:
    own = r"this thread already holds too many of its permits, acquired at .*test_semaphore\.py:\d+"
    pool = fake.semaphore("pool", 3)
    # As an error, the warning ends the call before it waits.
    with warnings.catch_warnings(), pool, pool:
        warnings.simplefilter("error")
        pool.acquire().release()
        two = fake.semaphore("pool", 3, permits=2)
        with pytest.raises(RuntimeWarning, match=own + r"\. Locks are not reentrant, so this call"):
            two.acquire()
        with pytest.raises(redlock.LockTimeout, match=own) as caught:
            two.acquire(wait=0)
        assert str(caught.value).count("reentrant") == 1


def test_permits_of_another_caller_are_no_reentry(fake: TestRedlock) -> None:
    pool = fake.semaphore("pool", 2)

    async def wait() -> str:
        with pytest.raises(redlock.LockTimeout) as caught:
            await pool.as_async().acquire(wait=0)
        return str(caught.value)

    async def main() -> None:
        async with pool, pool:
            assert "reentrant" not in await asyncio.create_task(wait())
            assert "this task already holds too many of its permits" in await wait()

    asyncio.run(main())


def test_limit_is_no_option_of_a_lock(fake: TestRedlock) -> None:
    lock: Any = fake.lock
    with pytest.raises(redlock.InvalidOption, match="limit is an option of the semaphore"):
        lock("job", limit=2)
