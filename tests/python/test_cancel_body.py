"""Cancellations, losses, and constructs around or inside a body: rows of docs/contributing/cancellation.md."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import redlock

from tests.waiting import eventually, forever


# Up to Python 3.12, a failed TaskGroup leaves a cancellation count on its task. Those tests use `asyncio.run` instead.
def run_and_check(main: Callable[[], Awaitable[None]]) -> None:
    """Runs `main` and checks that no cancellation is pending for its task."""

    async def whole() -> None:
        await main()
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        # A pending cancellation would end the task here.
        client = redlock.Redlock("memory://")
        for _ in range(3):
            await (await client.lock("after").as_async().acquire()).release()

    asyncio.run(whole())


def test_a_loss_is_raised_from_the_cancellation(client: redlock.Redlock, name: str) -> None:
    async def main() -> None:
        with pytest.raises(redlock.LockLost) as caught:
            async with client.lock(name):
                await client.as_async().force_release(name)
                await forever()
        assert isinstance(caught.value.__cause__, asyncio.CancelledError)

    run_and_check(main)


def test_body_that_ends_before_the_notification_raises_lock_lost(
    client: redlock.Redlock, name: str
) -> None:
    """The body never awaits again. The requested cancellation must not affect the task's later code."""

    async def main() -> None:
        with pytest.raises(redlock.LockLost, match="gone"):
            async with client.lock(name) as lease:
                client.force_release(name)
                eventually(lambda: not lease.held)

    run_and_check(main)


def test_body_that_blocks_the_loop_past_expiry_raises_lock_lost(
    client: redlock.Redlock, name: str
) -> None:
    async def main() -> None:
        with pytest.raises(redlock.LockLost) as caught:
            async with client.lock(name, ttl=0.1, renew=False) as lease:
                eventually(lambda: not lease.held)
        assert caught.value.reason == "expired"

    run_and_check(main)


def test_loss_during_a_cancellation_keeps_the_cancellation(
    client: redlock.Redlock, name: str
) -> None:
    """A cancelled task may hold a lock during its clean-up. The count at its entry identifies our own cancellation."""

    async def body() -> None:
        try:
            begun.set()
            await forever()
        except asyncio.CancelledError:
            try:
                async with client.lock(name):
                    await client.as_async().force_release(name)
                    await forever()
            except redlock.LockLost:
                task = asyncio.current_task()
                assert task is not None
                counts.append(task.cancelling())
            raise

    async def main() -> None:
        task = asyncio.create_task(body())
        await begun.wait()
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert counts == [1]

    counts: list[int] = []
    begun = asyncio.Event()
    run_and_check(main)


def test_timeouts_inside_the_body_and_losses_are_independent(
    client: redlock.Redlock, name: str
) -> None:
    async def main() -> None:
        async with client.lock(name) as lease:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await forever()
            assert lease.held
        with pytest.raises(redlock.LockLost):
            async with client.lock(name), asyncio.timeout(20):
                await client.as_async().force_release(name)
                await forever()

    run_and_check(main)


def test_shielded_call_continues_after_a_loss(client: redlock.Redlock, name: str) -> None:
    async def main() -> None:
        lost = asyncio.Event()

        async def work() -> str:
            await lost.wait()
            return "done"

        call = asyncio.create_task(work())
        with pytest.raises(redlock.LockLost):
            async with client.lock(name):
                await client.as_async().force_release(name)
                await asyncio.shield(call)
                await forever()
        assert not call.done()
        lost.set()
        assert await call == "done"

    run_and_check(main)


def test_loss_cancels_a_task_group_inside_the_body(client: redlock.Redlock, name: str) -> None:
    async def main() -> None:
        with pytest.raises(redlock.LockLost):
            async with client.lock(name), asyncio.TaskGroup() as group:
                child = group.create_task(forever())
                await client.as_async().force_release(name)
        assert child.cancelled()

    run_and_check(main)


def test_loss_inside_a_task_group_cancels_the_group(client: redlock.Redlock, name: str) -> None:
    async def holder() -> None:
        async with client.lock(name):
            inside.set()
            await forever()

    async def main() -> None:
        with pytest.raises(ExceptionGroup) as caught:
            async with asyncio.TaskGroup() as group:
                group.create_task(holder())
                bystander = group.create_task(forever())
                await inside.wait()
                await client.as_async().force_release(name)
        assert caught.group_contains(redlock.LockLost)
        assert bystander.cancelled()

    inside = asyncio.Event()
    asyncio.run(main())


def test_failing_task_group_cancels_the_holder(client: redlock.Redlock, name: str) -> None:
    async def holder() -> None:
        async with client.lock(name):
            inside.set()
            await forever()

    async def fails() -> None:
        await inside.wait()
        raise KeyError(1)

    async def main() -> None:
        with pytest.raises(ExceptionGroup) as caught:
            async with asyncio.TaskGroup() as group:
                holding = group.create_task(holder())
                group.create_task(fails())
        assert [type(error) for error in caught.value.exceptions] == [KeyError]
        assert holding.cancelled()
        assert not (await client.lock(name).as_async().inspect()).held

    inside = asyncio.Event()
    asyncio.run(main())


def test_loss_of_the_outer_scope_cancels_the_inner_one(client: redlock.Redlock, name: str) -> None:
    async def main() -> None:
        inner_error: BaseException | None = None
        with pytest.raises(redlock.LockLost, match=f"{name}-outer"):
            async with client.lock(f"{name}-outer"):
                try:
                    async with client.lock(f"{name}-inner"):
                        await client.as_async().force_release(f"{name}-outer")
                        await forever()
                except BaseException as error:
                    inner_error = error
                    raise
        assert isinstance(inner_error, asyncio.CancelledError)
        assert not (await client.lock(f"{name}-inner").as_async().inspect()).held

    run_and_check(main)


def test_loss_of_the_inner_scope_keeps_the_outer_one(client: redlock.Redlock, name: str) -> None:
    async def main() -> None:
        async with client.lock(f"{name}-outer") as lease:
            with pytest.raises(redlock.LockLost, match=f"{name}-inner"):
                async with client.lock(f"{name}-inner"):
                    await client.as_async().force_release(f"{name}-inner")
                    await forever()
            assert (await client.lock(f"{name}-outer").as_async().inspect()).held
            assert lease.held

    run_and_check(main)


def test_loss_of_both_scopes_raises_the_outer_one(client: redlock.Redlock, name: str) -> None:
    async def main() -> None:
        with pytest.raises(redlock.LockLost, match=f"{name}-outer"):
            async with client.lock(f"{name}-outer") as outer, client.lock(f"{name}-inner") as inner:
                client.force_release(f"{name}-inner")
                client.force_release(f"{name}-outer")
                eventually(lambda: not (outer.held or inner.held))
                await forever()

    run_and_check(main)


def test_loss_cancels_a_decorated_call(client: redlock.Redlock, name: str) -> None:
    @client.lock(name)
    async def guarded() -> None:
        await client.as_async().force_release(name)
        await forever()

    async def main() -> None:
        with pytest.raises(redlock.LockLost):
            await guarded()

    run_and_check(main)


def test_closed_async_generator_releases(client: redlock.Redlock, name: str) -> None:
    async def hold() -> AsyncIterator[redlock.Lease]:
        async with client.lock(name) as lease:
            yield lease

    async def main() -> None:
        generator = hold()
        lease = await anext(generator)
        assert lease.held
        await generator.aclose()  # type: ignore[attr-defined]
        assert not lease.held

    run_and_check(main)


def test_asyncio_run_releases_the_leases_of_remaining_tasks(
    client: redlock.Redlock, name: str
) -> None:
    """asyncio.run cancels the remaining tasks and waits for them."""

    async def hold() -> None:
        async with client.lock(name):
            inside.set()
            await forever()

    async def main() -> None:
        background.append(asyncio.create_task(hold()))
        await inside.wait()
        assert (await client.lock(name).as_async().inspect()).held

    background: list[asyncio.Task[None]] = []
    inside = asyncio.Event()
    asyncio.run(main())
    assert background[0].cancelled()
    assert not client.lock(name).inspect().held
