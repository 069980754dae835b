"""Cancellation while entering and leaving, and what each leaves behind: rows of docs/contributing/cancellation.md."""

import asyncio
import linecache
import signal
import sys
import time
from contextlib import AsyncExitStack, ExitStack
from types import FrameType

import pytest
import redlock

from tests.servers import Server, Silent
from tests.waiting import aeventually, eventually, forever


async def assert_no_pending_cancellation(client: redlock.Redlock) -> None:
    """Checks that no cancellation is pending for this task, which would end it here."""
    async with client.lock("nothing-is-left", wait=60):
        await asyncio.sleep(0)


def test_a_cancelled_wait_leaves_no_key(
    redis_client: redlock.Redlock, redis_server: Server, name: str
) -> None:
    lock = redis_client.lock(name, ttl=600)

    async def main() -> None:
        holder = await lock.as_async().acquire()
        waiting = asyncio.create_task(lock.as_async().acquire())
        await aeventually(lambda: redis_client.stats().waiting == 1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await holder.release()
        # A grant to the cancelled task would keep the next one out.
        await (await lock.as_async().acquire(wait=10)).release()
        assert redis_server.client.get(lock.key) is None

    asyncio.run(main())


def test_cancellation_at_any_time_leaves_no_key(
    redis_client: redlock.Redlock, redis_server: Server, name: str
) -> None:
    """Includes a grant that is in flight, and one that has arrived but that the task has not seen."""

    async def main() -> None:
        granted = 0
        for number in range(300):
            task = asyncio.create_task(
                redis_client.lock(f"{name}-{number}", ttl=600).as_async().acquire()
            )
            await asyncio.sleep(0)
            end = time.perf_counter() + number * 2e-6
            while time.perf_counter() < end and not task.done():
                # The loop is blocked. The grant arrives before the cancellation.
                if number % 3:
                    await asyncio.sleep(0)
            task.cancel()
            try:
                lease = await task
            except asyncio.CancelledError:
                continue
            granted += 1
            await lease.release()
        assert granted < 300
        await aeventually(lambda: redis_server.client.keys(f"lock:{name}*") == [])

    asyncio.run(main())


def test_exception_before_the_task_has_the_lease_leaves_no_key(client: redlock.Redlock) -> None:
    """Such as a second Ctrl-C. The traceback refers to the acquire for as long as the program keeps it."""
    lock = client.lock("interrupted", ttl=60)
    raised: list[BaseException] = []

    def interrupt(frame: FrameType, event: str, _: object) -> object:
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
        if event == "line" and "return acquire.lease()" in line:
            sys.settrace(None)
            raise KeyboardInterrupt
        return interrupt if event == "line" or frame.f_code.co_name == "_acquire" else None

    async def main() -> None:
        sys.settrace(interrupt)
        try:
            await lock.as_async().acquire()
        except KeyboardInterrupt as interrupted:
            raised.append(interrupted)
        finally:
            sys.settrace(None)
        await aeventually(lambda: not lock.inspect().held)

    asyncio.run(main())
    assert raised


def test_cancellation_before_the_first_step_sends_nothing(silent: list[Silent]) -> None:
    async def main() -> None:
        with redlock.Redlock(silent[0].url) as client:
            task = asyncio.create_task(client.lock("job").as_async().acquire())
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["timeout", "wait_for"])
def test_timeout_during_the_entry_raises_timeout_error(
    client: redlock.Redlock, name: str, kind: str
) -> None:
    async def enter(lock: redlock.Lock) -> None:
        async with lock:
            raise AssertionError("entered")

    async def main() -> None:
        lock = client.lock(name)
        async with lock:
            # In a separate task, because a task that waits for itself gets a warning.
            waiting = asyncio.create_task(enter(lock))
            with pytest.raises(TimeoutError) as caught:
                if kind == "wait_for":
                    await asyncio.wait_for(waiting, 0.1)
                else:
                    async with asyncio.timeout(0.1):
                        await waiting
            assert not isinstance(caught.value, redlock.LockError)
        async with lock as again:
            assert again.held

    asyncio.run(main())


def test_failing_task_group_cancels_the_entry(
    redis_client: redlock.Redlock, redis_server: Server, name: str
) -> None:
    async def enter() -> None:
        async with redis_client.lock(name, ttl=20):
            raise AssertionError("entered")

    async def fails() -> None:
        await aeventually(lambda: redis_client.stats().waiting == 1)
        raise KeyError(1)

    async def main() -> None:
        lease = await redis_client.lock(name, ttl=20).as_async().acquire()
        with pytest.raises(ExceptionGroup) as caught:
            async with asyncio.TaskGroup() as group:
                entering = group.create_task(enter())
                group.create_task(fails())
        assert [type(error) for error in caught.value.exceptions] == [KeyError]
        assert entering.cancelled()
        await lease.release()
        async with redis_client.lock(name, wait=10):
            pass
        assert redis_server.client.get(f"lock:{name}") is None

    asyncio.run(main())


def test_loss_cancels_the_body(
    redis_client: redlock.Redlock, redis_server: Server, name: str
) -> None:
    async def main() -> None:
        reached = False
        with pytest.raises(redlock.LockLost) as caught:
            # The next renewal, which would also detect it, is twenty seconds away.
            async with redis_client.lock(name, ttl=60) as lease:
                redis_server.client.delete(lease.key)
                await forever()
                reached = True
        assert not reached
        assert caught.value.reason == "missing"
        assert isinstance(caught.value.__cause__, asyncio.CancelledError)
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        await assert_no_pending_cancellation(redis_client)

    asyncio.run(main())


def test_cancellation_during_the_exit_still_releases(
    redis_client: redlock.Redlock, redis_server: Server, name: str
) -> None:
    async def body() -> None:
        async with redis_client.lock(name, ttl=600):
            asyncio.get_running_loop().call_soon(task.cancel)

    async def main() -> None:
        nonlocal task
        task = asyncio.create_task(body())
        with pytest.raises(asyncio.CancelledError):
            await task
        await aeventually(lambda: redis_server.client.get(f"lock:{name}") is None)

    task: asyncio.Task[None]
    asyncio.run(main())


def test_timeout_during_the_release_raises_timeout_error(name: str) -> None:
    """The server is frozen and does not confirm the release, which is sent nevertheless."""
    server = Server()
    try:
        with redlock.Redlock(server.url) as client:

            async def main() -> None:
                with pytest.raises(TimeoutError) as caught:
                    async with asyncio.timeout(None) as timeout, client.lock(name, ttl=600):
                        server.process.send_signal(signal.SIGSTOP)
                        timeout.reschedule(asyncio.get_running_loop().time() + 0.1)
                assert not isinstance(caught.value, redlock.LockError)

            asyncio.run(main())
            server.process.send_signal(signal.SIGCONT)
            eventually(lambda: server.client.get(f"lock:{name}") is None)
    finally:
        server.process.send_signal(signal.SIGCONT)
        server.close()


def test_a_loss_found_by_the_release_is_raised(
    redis_client: redlock.Redlock, redis_server: Server, name: str
) -> None:
    """The key was deleted in the body's last step, so no push has arrived yet."""

    async def main() -> None:
        with pytest.raises(redlock.LockLost):
            async with redis_client.lock(name) as lease:
                redis_server.client.delete(lease.key)
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        await assert_no_pending_cancellation(redis_client)

    asyncio.run(main())


def test_a_loss_during_the_exit_cancels_nothing(client: redlock.Redlock, name: str) -> None:
    """The notification may be in flight when the body ends, and arrive later."""

    async def main() -> None:
        lease = await client.lock(name).as_async().acquire()
        async with lease:
            body = lease.as_sync()._body
        body.lost(redlock.LockLost("late"))  # type: ignore[union-attr]
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        await assert_no_pending_cancellation(client)

    asyncio.run(main())


def test_unconfirmed_release_keeps_the_cancellation(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server()
    with redlock.Redlock(server.url) as client:

        async def body() -> None:
            async with client.lock(name, ttl=20):
                server.close()
                inside.set()
                await forever()

        async def main() -> None:
            task = asyncio.create_task(body())
            await inside.wait()
            task.cancel()
            await asyncio.wait([task], timeout=10)
            assert task.cancelled()

        inside = asyncio.Event()
        asyncio.run(main())
    assert any("not released" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("kind", ["blocking", "async"])
def test_unconfirmed_releases_are_logged_at_growing_intervals(
    kind: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server()

    def locks() -> list[redlock.Lock]:
        return [client.lock(f"{name}-{each}", ttl=60) for each in range(20)]

    async def leave_all() -> None:
        async with AsyncExitStack() as stack:
            for lock in locks():
                await stack.enter_async_context(lock.as_async())
            server.close()

    with redlock.Redlock(server.url) as client:
        if kind == "async":
            asyncio.run(leave_all())
        else:
            with ExitStack() as stack:
                for lock in locks():
                    stack.enter_context(lock)
                server.close()
        messages = [record.getMessage() for record in caplog.records]
        # Even if each release takes a second, only some of them are logged.
        assert 1 <= sum("not released" in message for message in messages) <= 10


def test_closed_coroutine_releases(
    redis_client: redlock.Redlock, redis_server: Server, name: str
) -> None:
    async def body() -> None:
        async with redis_client.lock(name, ttl=600):
            inside.set()
            await asyncio.get_running_loop().create_future()

    async def main() -> None:
        task = asyncio.create_task(body())
        await inside.wait()
        assert redis_server.client.get(f"lock:{name}")
        coroutine = task.get_coro()
        assert coroutine is not None
        coroutine.close()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await aeventually(lambda: redis_server.client.get(f"lock:{name}") is None)

    inside = asyncio.Event()
    asyncio.run(main())


def test_a_blocked_loop_does_not_get_an_expired_lease(client: redlock.Redlock, name: str) -> None:
    async def main() -> None:
        lock = client.lock(name, ttl=1, renew=False)
        task = asyncio.create_task(lock.as_async().acquire())
        await asyncio.sleep(0)
        # The loop is blocked until the lease is granted and has expired.
        eventually(lambda: client.stats().granted == 1 or lock.inspect().held)
        eventually(lambda: not lock.inspect().held)
        lease = await task
        assert lease.held
        assert lease.remaining > 0.15
        await lease.release()

    asyncio.run(main())
