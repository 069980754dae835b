"""The coroutine of `AsyncLock.acquire()` can be awaited or run as a task, once."""

import asyncio
import contextlib
import gc
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import redlock

from tests.waiting import aeventually, forever

LIMIT = 20

Way = Callable[[redlock.AsyncLock], Coroutine[Any, Any, redlock.AsyncLease]]


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(main(), LIMIT))


async def awaited(lock: redlock.AsyncLock) -> redlock.AsyncLease:
    return await lock.acquire(wait=3)


async def as_task(lock: redlock.AsyncLock) -> redlock.AsyncLease:
    return await asyncio.create_task(lock.acquire(wait=3))


async def in_group(lock: redlock.AsyncLock) -> redlock.AsyncLease:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(lock.acquire(wait=3))
    return task.result()


async def gathered(lock: redlock.AsyncLock) -> redlock.AsyncLease:
    (lease,) = await asyncio.gather(lock.acquire(wait=3))
    return lease


async def limited(lock: redlock.AsyncLock) -> redlock.AsyncLease:
    return await asyncio.wait_for(lock.acquire(wait=3), 5)


@pytest.mark.parametrize("way", [awaited, as_task, in_group, gathered, limited])
def test_acquire_can_be_awaited_or_run_as_a_task(
    aclient: redlock.AsyncRedlock, name: str, way: Way
) -> None:
    async def main() -> None:
        lock = aclient.lock(name)
        for _ in range(2):
            lease = await way(lock)
            assert lease.held
            await lease.release()

    run(main)


def test_asyncio_run_accepts_acquire(aclient: redlock.AsyncRedlock, name: str) -> None:
    lease = asyncio.run(aclient.lock(name).acquire(wait=3))
    assert lease.held
    asyncio.run(lease.release())


def test_acquired_lease_is_an_async_context_manager(
    aclient: redlock.AsyncRedlock, name: str
) -> None:
    async def main() -> None:
        lock = aclient.lock(name)
        async with await lock.acquire(wait=3) as lease:
            assert lease.held
            assert await lock.try_acquire() is None
            with pytest.raises(redlock.LockTimeout):
                async with await lock.acquire(wait=0):
                    pytest.fail("entered")
        assert not lease.held
        with pytest.raises(ZeroDivisionError):
            async with await lock.acquire(wait=3):
                raise ZeroDivisionError
        async with contextlib.AsyncExitStack() as stack:
            assert (await stack.enter_async_context(await lock.acquire(wait=3))).held
        assert not (await lock.inspect()).held

    run(main)


def test_loss_cancels_the_body(aclient: redlock.AsyncRedlock, name: str) -> None:
    async def main() -> None:
        with pytest.raises(redlock.LockLost) as caught:
            async with await aclient.lock(name).acquire(wait=3):
                await aclient.force_release(name)
                await forever()
        assert caught.value.reason == "missing"
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0

    run(main)


def test_cancelled_body_releases_and_stays_cancelled(
    aclient: redlock.AsyncRedlock, name: str
) -> None:
    async def body(entered: asyncio.Event) -> None:
        async with await aclient.lock(name).acquire(wait=3):
            entered.set()
            await forever()

    async def main() -> None:
        entered = asyncio.Event()
        task = asyncio.create_task(body(entered))
        await entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await aclient.lock(name).acquire(wait=0)).detach()

    run(main)


@pytest.mark.parametrize("entered", [False, True])
def test_a_cancelled_wait_leaves_no_key(
    aclient: redlock.AsyncRedlock, name: str, entered: bool
) -> None:
    async def enter(lock: redlock.AsyncLock) -> None:
        async with await lock.acquire():
            pytest.fail("entered")

    async def main() -> None:
        lock = aclient.lock(name)
        async with lock:
            waiting: asyncio.Task[Any] = asyncio.create_task(
                enter(lock) if entered else lock.acquire()
            )
            await aeventually(lambda: aclient.stats().waiting == 1)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            never_begun: asyncio.Task[Any] = asyncio.create_task(lock.acquire())
            never_begun.cancel()
            with pytest.raises(asyncio.CancelledError):
                await never_begun
        async with await lock.acquire(wait=0):
            pass

    run(main)
    gc.collect()


def test_acquire_cannot_be_awaited_twice(aclient: redlock.AsyncRedlock, name: str) -> None:
    async def main() -> None:
        lock = aclient.lock(name)
        acquiring = lock.acquire(wait=3)
        lease = await acquiring
        with pytest.raises(RuntimeError, match="already awaited"):
            await acquiring
        waiting = lock.acquire(wait=3)
        first = asyncio.create_task(waiting)
        await asyncio.sleep(0)

        async def again() -> None:
            await waiting

        with pytest.raises(RuntimeError, match="being awaited already"):
            await again()
        await lease.release()
        # The earlier caller is not disturbed.
        await (await first).release()

    run(main)


def test_collected_acquire_leaves_the_queue(aclient: redlock.AsyncRedlock, name: str) -> None:
    """A caller that drives it manually and abandons it leaves its place in the queue."""

    async def main() -> None:
        lock = aclient.lock(name)
        async with await asyncio.create_task(lock.acquire()):
            waiting = lock.acquire()
            waiting.send(None)
            del waiting
            gc.collect()
        while (lease := await lock.try_acquire()) is None:
            await asyncio.sleep(0)
        await lease.release()

    run(main)


def test_blocking_in_a_loop_warns_even_if_the_lock_is_free(
    client: redlock.Redlock, name: str
) -> None:
    """The warning also comes when the lock is free, so that a test finds it, and before any command is sent."""
    lock = client.lock(name)

    async def main() -> None:
        for block in (lambda: lock.acquire().release(), lambda: lock.acquire(wait=0).release()):
            with pytest.warns(RuntimeWarning, match="async with") as warned:
                block()
            assert len(warned) == 1
            assert warned[0].filename == __file__
        with pytest.warns(RuntimeWarning, match="async with"), lock:
            pass
        with pytest.raises(RuntimeWarning):  # an error, as these tests configure warnings
            lock.acquire()
        assert not (await lock.as_async().inspect()).held
        lease = lock.try_acquire()
        assert lease is not None
        lease.release()

    run(main)
    lock.acquire().release()
