"""`with lease:` and `async with lease:` reject a lease that has ended, or that another with statement releases."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redlock
import trio

from tests.waiting import eventually

#: Enters a lease in one of the possible ways, and calls `body` inside the with statement.
Enter = Callable[[redlock.Lease, Callable[[], object]], object]


def by_with(lease: redlock.Lease, body: Callable[[], object]) -> None:
    with lease:
        body()


def by_stack(lease: redlock.Lease, body: Callable[[], object]) -> None:
    with contextlib.ExitStack() as stack:
        stack.enter_context(lease)
        body()


async def by_async_with(lease: redlock.Lease, body: Callable[[], object]) -> None:
    async with lease.as_async():
        body()


async def by_async_stack(lease: redlock.Lease, body: Callable[[], object]) -> None:
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(lease.as_async())
        body()


@pytest.fixture(params=["with", "stack", "asyncio", "asyncio stack", "trio"])
def enter(request: pytest.FixtureRequest) -> Iterator[Enter]:
    """Runs the test once for each way to enter a lease."""
    if request.param in ("with", "stack"):
        yield by_with if request.param == "with" else by_stack
        return
    if request.param == "trio":
        yield lambda lease, body: trio.run(by_async_with, lease, body)
        return
    by = by_async_with if request.param == "asyncio" else by_async_stack
    with asyncio.Runner() as runner:
        yield lambda lease, body: runner.run(by(lease, body))


def end(client: redlock.Redlock, lease: redlock.Lease, method: str) -> None:
    """Ends the lease by this method of the lease, or by `force_release` of the client."""
    if method == "force_release":
        client.force_release(lease.key.removeprefix("lock:"))
        eventually(lambda: not lease.held)
    else:
        getattr(lease, method)()


@pytest.mark.parametrize("method", ["release", "detach", "force_release"])
def test_ended_lease_cannot_be_entered(
    client: redlock.Redlock, name: str, enter: Enter, method: str
) -> None:
    lease = client.lock(name).acquire()
    end(client, lease, method)
    with pytest.raises(redlock.LockLost):
        enter(lease, lambda: pytest.fail("the body ran without the lock"))


def test_lease_of_a_closed_client_cannot_be_entered(name: str, enter: Enter) -> None:
    client = redlock.Redlock("memory://")
    lease = client.lock(name).acquire()
    client.close()
    with pytest.raises(redlock.LockLost):
        enter(lease, lambda: pytest.fail("the body ran without the lock"))


def test_entered_lease_cannot_be_entered_again(
    client: redlock.Redlock, name: str, enter: Enter
) -> None:
    lease = client.lock(name).acquire()

    def outer() -> None:
        with pytest.raises(RuntimeError, match=f"{name}.*already entered"), lease:
            pytest.fail("entered again")
        assert lease.held
        assert client.lock(name).inspect().held

    enter(lease, outer)
    assert not lease.held


def test_lease_entered_by_its_lock_cannot_be_entered_again(
    client: redlock.Redlock, name: str, enter: Enter
) -> None:
    lock = client.lock(name)
    with lock as lease:
        with pytest.raises(RuntimeError, match="already entered"):
            enter(lease, lambda: pytest.fail("entered again"))
        assert lease.held
    assert not lease.held


@pytest.mark.parametrize("outer_kind", ["lock", "AsyncLock", "lease"])
@pytest.mark.parametrize("inner", ["with", "async with"])
def test_refused_inner_scope_does_not_end_the_outer_async_scope(
    client: redlock.Redlock, name: str, outer_kind: str, inner: str
) -> None:
    async def main() -> None:
        lock = client.lock(name)
        outer: Any = {"lock": lock, "AsyncLock": lock.as_async()}.get(outer_kind)
        if outer is None:
            outer = await lock.as_async().acquire()
        async with outer as lease:
            with pytest.raises(RuntimeError, match="already entered"):
                if inner == "with":
                    by_with(lease.as_sync(), lambda: pytest.fail("entered again"))
                else:
                    await by_async_with(lease.as_sync(), lambda: pytest.fail("entered again"))
            assert lease.held
        assert not lease.held

    asyncio.run(main())


def test_decorated_coroutine_does_not_run_after_its_lease_was_lost(
    client: redlock.Redlock, name: str
) -> None:
    """The call acquires the lock. Its coroutine is awaited later, when another client may hold the lock."""
    ran = []

    async def body() -> None:
        ran.append(1)

    decorated = client.lock(name)(lambda: body())
    coroutine = decorated()
    (lease,) = client.leases()
    end(client, lease, "force_release")
    with pytest.raises(redlock.LockLost):
        asyncio.run(coroutine)
    assert ran == []
