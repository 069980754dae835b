"""Rules that surprise users of other libraries. tests/README.md lists the tests."""

import asyncio
import contextlib
import ctypes
import gc
import logging
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redlock

from tests.servers import Silent
from tests.waiting import aeventually, eventually, forever

from .test_scope import force_loss

Call = Callable[..., Any]


def test_creating_a_lock_sends_nothing(silent: list[Silent]) -> None:
    lock = redlock.Redlock(silent[0].url).lock(["a", "b"], ttl=5, wait=5)
    assert lock.key == "lock:a, lock:b"
    assert (lock.keys, lock.names) == (["lock:a", "lock:b"], ["a", "b"])
    assert "a, b" in repr(lock)
    lock(lambda: None)
    assert not hasattr(lock, "release")


def test_lease_that_a_task_forgets_is_not_released(client: redlock.Redlock, name: str) -> None:
    async def main() -> None:
        with pytest.warns(ResourceWarning, match=rf"lock:{name}.*test_semantics\.py:\d+") as warned:
            await client.lock(name, ttl=20).as_async().acquire()
            await asyncio.sleep(0)  # the step that received it still has a reference
            gc.collect()
        assert len(warned) == 1
        assert await client.lock(name).as_async().try_acquire() is None

    asyncio.run(main())


def test_late_exit_of_a_thread_does_not_affect_the_next_holder(
    client: redlock.Redlock, name: str
) -> None:
    """Both entered the same Lock. The first one lost its lease, and leaves after the second has entered."""
    lock = client.lock(name)
    entered, leave = threading.Event(), threading.Event()

    def stale() -> redlock.LockLost:
        with pytest.raises(redlock.LockLost) as caught, lock as lease:
            force_loss(client, lease)
            entered.set()
            assert leave.wait(10)
        return caught.value

    with ThreadPoolExecutor() as threads:
        first = threads.submit(stale)
        assert entered.wait(10)
        with lock as lease:
            leave.set()
            assert first.result(10).reason == "missing"
            assert lease.held
            assert lock.inspect().held
        assert not lease.held


def test_late_exit_of_a_task_does_not_affect_the_next_holder(
    client: redlock.Redlock, name: str
) -> None:
    async def main() -> None:
        lock = client.lock(name)
        entered, leave = asyncio.Event(), asyncio.Event()

        async def stale() -> None:
            with pytest.raises(redlock.LockLost):
                async with lock as lease:
                    await client.as_async().force_release(name)
                    try:
                        await aeventually(lambda: not lease.held)
                        await forever()  # until it is notified
                    finally:
                        entered.set()
                        await leave.wait()

        first = asyncio.create_task(stale())
        await entered.wait()
        async with lock as lease:
            leave.set()
            await first
            assert lease.held
            assert (await lock.as_async().inspect()).held
        assert not lease.held

    asyncio.run(main())


def test_many_tasks_can_enter_one_lock(client: redlock.Redlock, name: str) -> None:
    lock = client.lock(name, wait=20)
    inside, most, entered = 0, 0, 0

    async def work() -> None:
        nonlocal inside, most, entered
        for _ in range(5):
            async with lock:
                inside += 1
                most, entered = max(most, inside), entered + 1
                await asyncio.sleep(0)
                inside -= 1

    async def main() -> None:
        await asyncio.gather(*(work() for _ in range(8)))

    asyncio.run(main())
    assert (most, entered) == (1, 40)


def test_exit_on_another_thread_ends_the_only_entry(client: redlock.Redlock, name: str) -> None:
    stack = contextlib.ExitStack()
    lease = stack.enter_context(client.lock(name))
    thread = threading.Thread(target=stack.close)
    thread.start()
    thread.join(10)
    assert not lease.held
    assert not client.lock(name).inspect().held


def test_exit_on_another_thread_with_several_entries_releases_nothing(
    client: redlock.Redlock, name: str
) -> None:
    lock = client.lock(name)

    def hold() -> Iterator[redlock.Lease]:
        with lock as lease:
            yield lease

    stale, next_one = hold(), hold()
    force_loss(client, next(stale))
    held = next(next_one)
    with (
        ThreadPoolExecutor() as threads,
        pytest.raises(RuntimeError, match="2 others have: nothing is released"),
    ):
        threads.submit(lock.__exit__, None, None, None).result(10)
    assert held.held
    assert next(next_one, None) is None
    with pytest.raises(redlock.LockLost):
        next(stale)


@pytest.mark.slow("the interpreter stands still for longer than two ttls")
def test_busy_gil_does_not_return_an_expired_lease(client: redlock.Redlock, name: str) -> None:
    before = client.lock(name, ttl=0.4, renew=False).acquire()
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(client.lock(name, ttl=1, renew=False).acquire)
        time.sleep(0.1)
        # No other thread runs meanwhile. The first lease ends, and the second is granted and ends too.
        ctypes.PyDLL(None).usleep(1_600_000)
        lease = waiting.result(10)
    assert lease.held
    lease.release()
    with pytest.raises(redlock.LockLost):
        before.release()


def test_on_lost_of_a_lost_lease_is_called_soon_by_the_loop(
    client: redlock.Redlock, name: str
) -> None:
    async def main() -> None:
        lease = await client.lock(name).as_async().acquire()
        force_loss(client, lease)
        notified = asyncio.get_running_loop().create_future()
        lease.on_lost(lambda error: notified.set_result((error.reason, threading.current_thread())))
        assert not notified.done()  # soon, but not inside the call
        assert await asyncio.wait_for(notified, 5) == ("missing", threading.current_thread())

    asyncio.run(main())


def test_long_held_lease_logs_one_warning_with_its_call_site(
    name: str, caplog: pytest.LogCaptureFixture, call: Call
) -> None:
    with redlock.Redlock("memory://") as client:
        lease = call(client.lock(name, ttl=4.5), "acquire")
        call(lease, "extend", 0.1)  # never shortens, so it stays held on a busy machine
        found = eventually(
            lambda: [record for record in caplog.records if name in record.getMessage()]
        )
        call(lease, "release")
    (text,) = [record.getMessage() for record in found]
    assert re.search(r"held for more than ten times its TTL, acquired at .*\.py:\d+", text)
    assert found[0].levelno == logging.WARNING


@pytest.mark.slow("waits for a second warning that does not come")
def test_many_leases_from_one_call_site_log_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    with redlock.Redlock("memory://") as client:
        leases = [client.lock(f"long-{number}", ttl=20).acquire() for number in range(50)]
        for lease in leases:
            lease.extend(0.1)
        end = time.monotonic() + 20
        found: list[str] = []
        while not found and time.monotonic() < end:
            time.sleep(0.05)
            found = [text for text in caplog.messages if "held for more than ten times" in text]
        time.sleep(0.5)
        found = [text for text in caplog.messages if "held for more than ten times" in text]
        assert len(found) == 1
