"""The holder that messages name: a thread, task or greenlet is never taken for an earlier one at the same address."""

import asyncio
import contextlib
import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redlock
import trio

#: How LockTimeout names the holder: the same client, but another caller.
HELD_BY_ANOTHER = r"this client holds it, acquired at .*test_owners\.py:\d+$"
HELD_BY_CALLER = "this thread already holds it"


def test_task_at_the_address_of_an_earlier_task_is_not_its_holder(
    client: redlock.Redlock, name: str
) -> None:
    """`wait_for` of Python 3.11 acquires in a separate task, which then ends."""
    lock = client.lock(name).as_async()

    async def main() -> None:
        addresses: set[int] = set()

        async def acquire(wait: float) -> redlock.AsyncLease:
            addresses.add(id(asyncio.current_task()))
            return await lock.acquire(wait=wait)

        lease = await asyncio.create_task(acquire(10))
        # A warning would be an error here.
        for _ in range(20):
            with pytest.raises(redlock.LockTimeout, match=HELD_BY_ANOTHER):
                await asyncio.create_task(acquire(0))
        assert len(addresses) < 21, "no address was used twice"
        await lease.release()

    asyncio.run(main())


def test_trio_task_at_the_address_of_an_earlier_task_is_not_its_holder(
    client: redlock.Redlock, name: str
) -> None:
    lock = client.lock(name).as_async()

    async def main() -> None:
        addresses: set[int] = set()
        leases: list[redlock.AsyncLease] = []

        async def acquire() -> None:
            addresses.add(id(trio.lowlevel.current_task()))
            leases.append(await lock.acquire())

        async def refused() -> None:
            addresses.add(id(trio.lowlevel.current_task()))
            with pytest.raises(redlock.LockTimeout, match=HELD_BY_ANOTHER):
                await lock.acquire(wait=0)

        for step in (acquire, *[refused] * 20):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(step)
        assert len(addresses) < 21, "no address was used twice"
        await leases[0].release()

    trio.run(main)


def test_greenlet_at_the_address_of_an_earlier_greenlet_is_not_its_holder() -> None:
    program = Path(__file__).with_name("programs") / "greenlets.py"
    command = [sys.executable, "-W", "ignore", program, "gevent", "before", "memory://", "owners"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert (done.stdout, done.returncode) == ("0 True\n", 0), done.stderr


def test_call_at_the_address_of_an_earlier_call_is_not_its_holder(
    client: redlock.Redlock, name: str
) -> None:
    """A function that hands its lease over ends. Its next call has a frame at the same address."""
    lock, handed_over = client.lock(name), list[redlock.Lease]()
    addresses: set[int] = set()

    def acquire(wait: float) -> None:
        addresses.add(id(sys._getframe()))
        handed_over.append(lock.acquire(wait=wait))

    acquire(10)
    # A warning would be an error here.
    for _ in range(20):
        with pytest.raises(redlock.LockTimeout, match=HELD_BY_ANOTHER):
            acquire(0)
    assert len(addresses) < 21, "no address was used twice"
    handed_over[0].release()


def in_variable(lock: redlock.Lock, again: Callable[[], None]) -> None:
    lease = lock.acquire()
    again()
    lease.release()


def in_with(lock: redlock.Lock, again: Callable[[], None]) -> None:
    with lock.acquire():
        again()


def in_with_of_lock(lock: redlock.Lock, again: Callable[[], None]) -> None:
    with lock:
        again()


def in_exit_stack(lock: redlock.Lock, again: Callable[[], None]) -> None:
    with contextlib.ExitStack() as stack:
        stack.enter_context(lock)
        again()


def in_exit_stack_as_lease(lock: redlock.Lock, again: Callable[[], None]) -> None:
    with contextlib.ExitStack() as stack:
        stack.enter_context(lock.acquire())
        again()


def by_decorator(lock: redlock.Lock, again: Callable[[], None]) -> None:
    lock(again)()


@pytest.mark.parametrize(
    "hold",
    [in_variable, in_with, in_with_of_lock, in_exit_stack, in_exit_stack_as_lease, by_decorator],
)
def test_thread_that_holds_the_lock_in_any_way_is_warned(
    client: redlock.Redlock, name: str, hold: Callable[..., None]
) -> None:
    lock = client.lock(name)

    def again() -> None:
        with (
            pytest.warns(RuntimeWarning, match=HELD_BY_CALLER),
            pytest.raises(redlock.LockTimeout, match=HELD_BY_CALLER),
        ):
            lock.acquire(wait=0.5)

    hold(lock, again)
    assert not lock.inspect().held


def test_lease_is_collected_after_its_thread_has_waited_again(
    client: redlock.Redlock, name: str
) -> None:
    """The look for the holder keeps no variable of the program alive."""
    lock = client.lock(name)

    def work() -> "weakref.ref[redlock.Lease]":
        lease = lock.acquire()
        weak = weakref.ref(lease)
        with pytest.warns(RuntimeWarning), pytest.raises(redlock.LockTimeout):
            lock.acquire(wait=0.5)
        lease.release()
        del lease
        # In the same frame, whose variables were looked at.
        assert weak() is None
        return weak

    work()


def test_tasks_are_not_kept_alive(client: redlock.Redlock, name: str) -> None:
    lock, tasks = client.lock(name).as_async(), list["weakref.ref[asyncio.Task[Any]]"]()

    async def work() -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.append(weakref.ref(task))
        async with lock:
            pass

    async def main() -> None:
        for _ in range(10):
            await asyncio.create_task(work())

    asyncio.run(main())
    gc.collect()
    assert [task() for task in tasks] == [None] * 10


def test_task_is_recognized_after_many_other_tasks(client: redlock.Redlock, name: str) -> None:
    lock, other = client.lock(name).as_async(), client.lock(f"{name}-other").as_async()

    async def work() -> None:
        async with other:
            pass

    async def main() -> None:
        async with lock:
            for _ in range(3000):
                await asyncio.create_task(work())
            with (
                pytest.warns(RuntimeWarning, match="this task already holds it"),
                pytest.raises(redlock.LockTimeout, match="this task already holds it"),
            ):
                await lock.acquire(wait=0.5)

    asyncio.run(main())


def test_thread_is_not_taken_for_an_earlier_thread(client: redlock.Redlock, name: str) -> None:
    lock, leases, errors = client.lock(name), list[redlock.Lease](), list[str]()

    def acquire() -> None:
        leases.append(lock.acquire())

    def refused() -> None:
        try:
            lock.acquire(wait=0)
        except redlock.LockTimeout as error:
            errors.append(str(error))

    for step in (acquire, *[refused] * 20):
        thread = threading.Thread(target=step)
        thread.start()
        thread.join()
    assert len(errors) == 20
    assert not any("already holds" in error for error in errors)
    leases[0].release()
