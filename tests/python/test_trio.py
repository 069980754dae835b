"""Locks under trio, and under anyio with trio or asyncio: the same behaviour as under asyncio alone."""

import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
import redlock
import trio

from tests.servers import Server
from tests.waiting import aeventually, eventually

Main = Callable[[], Awaitable[Any]]


@pytest.fixture(params=["trio", "anyio-trio", "anyio-asyncio"])
def run(request: pytest.FixtureRequest) -> Callable[[Main], Any]:
    """Returns a function that runs `main` under trio, or under anyio with one of its backends."""
    if request.param == "trio":
        return lambda main: trio.run(main)
    backend = request.param.removeprefix("anyio-")
    return lambda main: anyio.run(main, backend=backend)


async def assert_no_pending_cancellation(client: redlock.Redlock) -> None:
    """Checks that no cancellation is pending for this task, which would end it here."""
    async with client.lock("nothing-is-left", wait=60):
        await anyio.sleep(0)


def test_every_awaited_method_works(run: Any, client: redlock.Redlock, name: str) -> None:
    async def main() -> None:
        lock = client.lock(name, ttl=5)
        async with lock as lease:
            assert lease.held
            await lease.extend(ttl=20)
            assert await lock.as_async().try_acquire() is None
            assert (await lock.as_async().inspect()).held
        assert not lease.held
        async with await lock.as_async().acquire(wait=1) as lease:
            assert lease.held
        lease = await lock.as_async().acquire(wait=1)
        attached = await client.as_async().attach(name, lease.token, ttl=5)
        async with lease:
            pass
        assert attached.detach() in (True, False)
        kept = await lock.as_async().try_acquire()
        assert await client.as_async().release_all() == 1
        assert kept is not None
        assert not kept.held
        assert await client.as_async().force_release(name) is False
        async with redlock.AsyncRedlock("memory://") as other:
            kept = await other.lock(name).acquire()
        assert not kept.held
        assert await other.shutdown(0) == 0

    run(main)


def test_waiters_are_served_in_order_while_other_tasks_run(
    run: Any, client: redlock.Redlock, name: str
) -> None:
    lock, served, beats = client.lock(name), list[int](), list[float]()
    all_wait: list[bool] = []

    async def work(number: int) -> None:
        async with lock:
            served.append(number)
            if number == 0:
                await aeventually(lambda: all_wait, sleep=anyio.sleep)

    async def waiting(count: int) -> None:
        await aeventually(lambda: client.stats().waiting == count, sleep=anyio.sleep)

    async def beat() -> None:
        while True:
            beats.append(time.monotonic())
            await anyio.sleep(0)

    async def main() -> None:
        async with anyio.create_task_group() as outer:
            outer.start_soon(beat)
            async with anyio.create_task_group() as group:
                for number in range(8):
                    group.start_soon(work, number)
                    if number:
                        await waiting(number)
                    else:
                        await aeventually(lambda: served, sleep=anyio.sleep)
                all_wait.append(True)
            outer.cancel_scope.cancel()

    run(main)
    assert served == list(range(8))
    assert len(beats) > 8


def test_a_cancelled_wait_leaves_no_key(run: Any, client: redlock.Redlock, name: str) -> None:
    lock = client.lock(name)
    held = lock.acquire()

    async def main() -> None:
        with anyio.move_on_after(0.1) as scope:
            await lock.as_async().acquire()
        assert scope.cancelled_caught
        with anyio.move_on_after(0.1) as scope:
            async with lock:
                raise AssertionError("entered")
        assert scope.cancelled_caught
        with pytest.raises(TimeoutError), anyio.fail_after(0.05):
            await lock.as_async().acquire()
        await held.as_async().release()
        # The cancelled acquires have left the queue.
        async with client.lock(name, wait=0):
            pass

    run(main)
    assert not lock.inspect().held


def test_cancellation_at_any_time_leaves_no_key(
    run: Any, redis_client: redlock.Redlock, name: str
) -> None:
    lock = redis_client.lock(name, ttl=20)

    async def main() -> int:
        cancelled = 0
        for number in range(150):
            with anyio.move_on_after(number * 1e-5) as scope:
                lease = await lock.as_async().acquire()
                with anyio.CancelScope(shield=True):
                    await lease.release()
            cancelled += scope.cancelled_caught
        return cancelled

    assert run(main) > 0
    with lock.acquire(wait=5):
        assert not redis_client.leases()[1:]


def test_loss_cancels_the_body(run: Any, client: redlock.Redlock, name: str) -> None:
    lock, seen = client.lock(name), list[str]()

    async def main() -> None:
        for entered in (lock, lock.as_async()):
            with pytest.raises(redlock.LockLost) as caught:
                async with entered:
                    await client.as_async().force_release(name)
                    try:
                        await anyio.sleep_forever()
                    finally:
                        seen.append("cleaned up")
            assert caught.value.reason == "missing"
            assert isinstance(caught.value.__cause__, anyio.get_cancelled_exc_class())
        lease = await lock.as_async().acquire()
        with pytest.raises(redlock.LockLost):
            async with lease:
                await client.as_async().force_release(name)
                await anyio.sleep_forever()
        # No cancellation is pending.
        await assert_no_pending_cancellation(client)

    run(main)
    assert len(seen) == 2


def test_loss_without_a_checkpoint_is_raised_at_the_exit(run: Any, name: str) -> None:
    client = redlock.Redlock("memory://")

    async def main() -> None:
        with pytest.raises(redlock.LockLost):
            async with client.lock(name, ttl=0.2, renew=False) as lease:
                eventually(lambda: not lease.held)
        await assert_no_pending_cancellation(client)
        with pytest.raises(KeyError) as caught:
            async with client.lock(name, ttl=0.2, renew=False) as lease:
                eventually(lambda: not lease.held)
                raise KeyError("body")
        assert "redlock" in caught.value.__notes__[0]
        await assert_no_pending_cancellation(client)

    run(main)


def test_loss_is_raised_by_the_scope_that_lost_its_lease(
    run: Any, client: redlock.Redlock, name: str
) -> None:
    inner, outer = f"{name}-inner", f"{name}-outer"

    async def main(lost: str) -> str:
        caught_inside = ""
        with pytest.raises(redlock.LockLost, match=lost):
            async with client.lock(outer):
                try:
                    async with client.lock(inner):
                        await client.as_async().force_release(lost)
                        await anyio.sleep_forever()
                except redlock.LockLost:
                    caught_inside = "inner"
                    raise
        return caught_inside

    assert run(lambda: main(inner)) == "inner"
    assert run(lambda: main(outer)) == ""
    assert not client.lock(inner).inspect().held


def test_loss_inside_and_around_a_task_group_cancels_it(
    run: Any, client: redlock.Redlock, name: str
) -> None:
    ended: list[str] = []

    async def sleeper() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("sleeper")

    async def around() -> None:
        async with client.lock(name), anyio.create_task_group() as group:
            group.start_soon(sleeper)
            await anyio.wait_all_tasks_blocked()
            await client.as_async().force_release(name)

    async def inside() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(sleeper)
            group.start_soon(holder)

    async def holder() -> None:
        async with client.lock(name):
            await anyio.wait_all_tasks_blocked()
            await client.as_async().force_release(name)
            await anyio.sleep_forever()

    with pytest.raises(redlock.LockLost):
        run(around)
    with pytest.raises(ExceptionGroup) as caught:
        run(inside)
    assert [type(error) for error in caught.value.exceptions] == [redlock.LockLost]
    assert ended == ["sleeper", "sleeper"]


def test_a_cancelled_holder_releases(run: Any, redis_client: redlock.Redlock, name: str) -> None:
    lock = redis_client.lock(name, ttl=20)

    async def main() -> None:
        with anyio.move_on_after(0.05) as scope:
            async with lock:
                await anyio.sleep_forever()
        assert scope.cancelled_caught
        # The release of the cancelled holder was sent before this acquire.
        await (await lock.as_async().acquire(wait=2)).release()
        async with anyio.create_task_group() as group:
            with pytest.raises(KeyError):
                async with lock:
                    raise KeyError("body")
            group.cancel_scope.cancel()

    run(main)
    lock.acquire(wait=2).release()


def test_a_blocked_loop_does_not_get_an_expired_lease(run: Any, name: str) -> None:
    client = redlock.Redlock("memory://")
    lock = client.lock(name, ttl=0.2, renew=False)

    async def block() -> None:
        # Blocks the loop until the acquire was granted and its lease has expired.
        eventually(lambda: client.stats().granted == 1)
        eventually(lambda: not lock.inspect().held)
        blocked.append(True)

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(block)
            async with lock as lease:
                assert blocked
                assert lease.held

    blocked: list[bool] = []
    run(main)


def test_on_lost_runs_in_the_event_loop_and_accepts_coroutine_functions(
    run: Any, client: redlock.Redlock, name: str
) -> None:
    notified: list[Any] = []

    async def main() -> None:
        async def slow(error: redlock.LockLost) -> None:
            await anyio.sleep(0)
            notified.append(error.reason)

        lease = await client.lock(name).as_async().acquire()
        lease.on_lost(lambda error: notified.append(error.reason))
        lease.on_lost(slow)
        await client.as_async().force_release(name)
        await aeventually(lambda: len(notified) >= 2, sleep=anyio.sleep)
        with pytest.raises(redlock.LockLost):
            await lease.release()

    run(main)
    assert notified == ["missing", "missing"]


def test_callback_that_raises_is_logged_and_stops_nothing(
    client: redlock.Redlock, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(error: redlock.LockLost) -> None:
        raise ValueError("callback")

    async def slow(error: redlock.LockLost) -> None:
        raise ValueError("task")

    async def main() -> None:
        lease = await client.lock(name).as_async().acquire()
        lease.on_lost(fails)
        lease.on_lost(slow)
        await client.as_async().force_release(name)
        await aeventually(
            lambda: len([record for record in caplog.records if record.exc_info]) >= 2,
            sleep=trio.sleep,
        )
        with pytest.raises(redlock.LockLost):
            await lease.release()

    trio.run(main)


def test_only_a_task_that_waits_for_its_own_lock_is_warned(
    run: Any, client: redlock.Redlock, name: str
) -> None:
    """A task that waits for another task's lock gets no warning."""
    lock = client.lock(name).as_async()

    async def other() -> None:
        with pytest.raises(redlock.LockTimeout) as caught:
            await lock.acquire(wait=0)
        assert "not reentrant" not in str(caught.value)

    async def main() -> None:
        async with lock:
            with pytest.raises(redlock.LockTimeout, match="not reentrant"):
                await lock.acquire(wait=0)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                with pytest.raises(RuntimeWarning, match="this task already holds it"):
                    await lock.acquire()
            async with anyio.create_task_group() as group:
                group.start_soon(other)

    run(main)


def test_blocking_in_an_event_loop_warns(run: Any, client: redlock.Redlock, name: str) -> None:
    async def main() -> None:
        with pytest.warns(RuntimeWarning, match="async with"), client.lock(name):
            pass

    run(main)

    # A worker thread may block, so it gets no warning.
    async def threads() -> None:
        def work() -> bool:
            with client.lock(name) as lease:
                return lease.held

        assert await anyio.to_thread.run_sync(work)

    run(threads)


def test_decorated_coroutine_function_holds_the_lock(
    run: Any, client: redlock.Redlock, name: str
) -> None:
    @client.lock(name, wait=0, default="skipped")
    async def work() -> str:
        await anyio.sleep(0)
        return "held" if (await client.lock(name).as_async().inspect()).held else "free"

    assert run(work) == "held"


def test_sequential_runs_and_runs_in_threads_work(client: redlock.Redlock, name: str) -> None:
    async def main() -> bool:
        async with client.lock(name) as lease:
            return lease.held

    assert all(trio.run(main) for _ in range(20))

    async def threads() -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(trio.to_thread.run_sync, trio.run, main)

    trio.run(threads)


INTERRUPTED = """
import sys, threading, redlock, {library}
client = redlock.Redlock(sys.argv[1])
def report_when_waiting():
    while client.stats().waiting == 0: pass
    print("waits", flush=True)
async def main():
    async with client.lock(sys.argv[2], ttl=30) as lease:
        threading.Thread(target=report_when_waiting, daemon=True).start()
        await client.lock(sys.argv[2]).as_async().acquire()
try:
    {run}
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize(
    ("library", "run"),
    [
        ("trio", "trio.run(main)"),
        ("anyio", "anyio.run(main, backend='trio')"),
        ("anyio", "anyio.run(main, backend='asyncio')"),
    ],
)
def test_ctrl_c_ends_a_wait_and_leaves_no_key(
    library: str, run: str, redis_server: Server, name: str
) -> None:
    code = INTERRUPTED.format(library=library, run=run)
    command = [sys.executable, "-W", "ignore", "-c", code, redis_server.url, name]
    for _ in range(3):
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"waits\n"
            os.kill(process.pid, signal.SIGINT)
            out, err = process.communicate(timeout=30)
            assert (out, err) == (b"interrupted\n", b"")
        assert redis_server.client.get(f"lock:{name}") is None


def test_trio_and_anyio_are_imported_only_if_used() -> None:
    code = """
import asyncio, sys, redlock
client = redlock.Redlock("memory://")
async def main():
    async with client.lock("job"):
        pass
with client.lock("job"):
    pass
asyncio.run(main())
print([name for name in ("trio", "anyio", "redlock._trio") if name in sys.modules])
sys.modules["trio"] = None
asyncio.run(main())
sys.modules["trio"] = sys
asyncio.run(main())
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
    assert (ran.stdout, ran.stderr) == (b"[]\n", b"")
