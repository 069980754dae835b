"""asyncio: cancellation, timeouts and loss, and what each leaves behind."""

import asyncio
import time

import pytest
import redlock

from .servers import Server


def test_a_cancelled_wait_leaves_no_key(
    redis_client: redlock.Redlock, redis_server: Server, name: str
) -> None:
    lock = redis_client.lock(name, ttl=20)

    async def main() -> None:
        holder = await lock.aacquire()
        waiting = asyncio.create_task(lock.aacquire())
        await asyncio.sleep(0.1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await holder.arelease()
        await asyncio.sleep(0.2)
        assert redis_server.client.get(lock.key) is None

    asyncio.run(main())


def test_cancelled_at_any_moment_it_leaves_no_key(
    redis_client: redlock.Redlock, redis_server: Server, name: str
) -> None:
    """Also when the grant is on its way, or has arrived and the task has not seen it."""

    async def main() -> None:
        granted = 0
        for number in range(300):
            task = asyncio.create_task(redis_client.lock(f"{name}-{number}", ttl=20).aacquire())
            await asyncio.sleep(0)
            end = time.perf_counter() + number * 2e-6
            if number % 3 == 0:
                time.sleep(
                    number * 2e-6
                )  # the loop is blocked: the grant is there before the cancellation
            else:
                while time.perf_counter() < end and not task.done():
                    await asyncio.sleep(0)
            task.cancel()
            try:
                lease = await task
            except asyncio.CancelledError:
                continue
            granted += 1
            await lease.arelease()
        assert granted < 300
        await asyncio.sleep(0.3)
        assert redis_server.client.keys(f"lock:{name}*") == []

    asyncio.run(main())


def test_timeout_of_asyncio(client: redlock.Redlock, name: str) -> None:
    async def main() -> None:
        lock = client.lock(name)
        lease = await lock.aacquire()
        with pytest.raises(TimeoutError) as caught:
            async with asyncio.timeout(0.1):
                await asyncio.create_task(lock.aacquire())
        assert not isinstance(caught.value, redlock.LockError)
        await lease.arelease()
        async with lock as again:
            assert again.held

    asyncio.run(main())


def test_loss_cancels_the_body(
    redis_client: redlock.Redlock, redis_server: Server, name: str
) -> None:
    async def main() -> None:
        begun = time.monotonic()
        reached = False
        with pytest.raises(redlock.LockLost) as caught:
            async with redis_client.lock(name, ttl=3) as lease:
                redis_server.client.delete(lease.key)
                await asyncio.sleep(10)
                reached = True
        assert not reached
        assert time.monotonic() - begun < 4
        assert caught.value.reason == "missing"
        assert isinstance(caught.value.__cause__, asyncio.CancelledError)
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        await asyncio.sleep(0.01)  # nothing is left to be delivered

    asyncio.run(main())


def test_cancelled_during_the_exit_it_is_released_all_the_same(
    redis_client: redlock.Redlock, redis_server: Server, name: str
) -> None:
    async def body() -> None:
        async with redis_client.lock(name, ttl=20):
            asyncio.get_running_loop().call_soon(task.cancel)

    async def main() -> None:
        nonlocal task
        task = asyncio.create_task(body())
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0.2)
        assert redis_server.client.get(f"lock:{name}") is None

    task: asyncio.Task[None]
    asyncio.run(main())


def test_a_coroutine_that_is_closed_releases(
    redis_client: redlock.Redlock, redis_server: Server, name: str
) -> None:
    async def body() -> None:
        async with redis_client.lock(name, ttl=20):
            await asyncio.get_running_loop().create_future()

    async def main() -> None:
        task = asyncio.create_task(body())
        await asyncio.sleep(0.1)
        assert redis_server.client.get(f"lock:{name}")
        coroutine = task.get_coro()
        assert coroutine is not None
        coroutine.close()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await asyncio.sleep(0.2)
        assert redis_server.client.get(f"lock:{name}") is None

    asyncio.run(main())


def test_a_blocked_loop_does_not_get_an_expired_lease(client: redlock.Redlock, name: str) -> None:
    async def main() -> None:
        lock = client.lock(name, ttl=0.3, renew=False)
        task = asyncio.create_task(lock.aacquire())
        await asyncio.sleep(0)
        time.sleep(0.6)  # granted meanwhile, and over
        lease = await task
        assert lease.held
        assert lease.remaining > 0.15
        await lease.arelease()

    asyncio.run(main())
