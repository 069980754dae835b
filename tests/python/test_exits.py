"""Exits in another frame, task or thread than the entry, next to an entry that is never left."""

import asyncio
import contextlib
import gc
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import redlock

from tests.waiting import eventually

Exit = Callable[[], Awaitable[object]]


async def in_task(call: Callable[[], Awaitable[Any]]) -> Any:
    """Awaits a call in a separate task, which then ends, as `asyncio.wait_for` does before Python 3.12."""

    async def run() -> Any:
        return await call()

    return await asyncio.create_task(run())


async def by_method(lock: redlock.Lock) -> Exit:
    class Resource:
        async def start(self) -> None:
            await lock.__aenter__()

        async def stop(self) -> None:
            await lock.__aexit__(None, None, None)

    resource = Resource()
    await in_task(resource.start)
    return resource.stop


async def by_exit_stack(lock: redlock.Lock) -> Exit:
    stack = contextlib.AsyncExitStack()
    await in_task(lambda: stack.enter_async_context(lock))
    return stack.aclose


async def by_moved_exit_stack(lock: redlock.Lock) -> Exit:
    async with contextlib.AsyncExitStack() as stack:
        await in_task(lambda: stack.enter_async_context(lock))
        return stack.pop_all().aclose


async def by_sync_exit_stack(lock: redlock.Lock) -> Exit:
    stack = contextlib.ExitStack()

    async def enter() -> None:
        with pytest.warns(RuntimeWarning, match="blocks the event loop"):
            stack.enter_context(lock)

    async def leave() -> None:
        stack.close()

    await in_task(enter)
    return leave


ENTRIES = [by_method, by_exit_stack, by_moved_exit_stack, by_sync_exit_stack]


async def lose(client: redlock.Redlock, name: str) -> None:
    """Returns once the client has noticed the loss. Its exit would report it otherwise."""
    await client.as_async().force_release(name)
    while client.leases():
        await asyncio.sleep(0)


@pytest.mark.parametrize("enter", ENTRIES)
def test_entry_that_is_never_left_does_not_keep_another_task_from_leaving(
    client: redlock.Redlock, name: str, enter: Callable[[redlock.Lock], Awaitable[Exit]]
) -> None:
    lock = client.lock(name)

    async def main() -> None:
        await enter(lock)
        await lose(client, name)
        leave = await enter(lock)
        await in_task(leave)
        assert not lock.inspect().held

    asyncio.run(main())


def test_entry_by_a_call_is_left_in_the_same_function(client: redlock.Redlock, name: str) -> None:
    """The coroutine of the entry runs in another task, but the function calls it."""
    lock = client.lock(name)

    async def use() -> None:
        await asyncio.create_task(lock.__aenter__())
        await lock.__aexit__(None, None, None)
        assert not lock.inspect().held

    async def main() -> None:
        await asyncio.create_task(lock.__aenter__())
        await lose(client, name)
        await use()

    asyncio.run(main())


@pytest.mark.parametrize("enter", ENTRIES)
@pytest.mark.parametrize("next_enter", ENTRIES)
def test_late_exit_does_not_release_the_next_entry(
    client: redlock.Redlock,
    name: str,
    enter: Callable[[redlock.Lock], Awaitable[Exit]],
    next_enter: Callable[[redlock.Lock], Awaitable[Exit]],
) -> None:
    lock = client.lock(name)

    async def main() -> None:
        late = await enter(lock)
        await lose(client, name)
        leave = await next_enter(lock)
        with pytest.raises(redlock.LockLost):
            await in_task(late)
        assert lock.inspect().held
        await in_task(leave)
        assert not lock.inspect().held

    asyncio.run(main())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_lock_of_an_abandoned_task_is_released(client: redlock.Redlock, name: str) -> None:
    """The loop was closed while the task was inside. The lock, which still exists, does not keep the task alive."""
    lock = client.lock(name, ttl=300)

    async def stay(entered: asyncio.Event) -> None:
        async with lock:
            entered.set()
            await asyncio.Event().wait()

    async def main() -> None:
        entered = asyncio.Event()
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        asyncio.get_running_loop().kept = asyncio.create_task(stay(entered))  # type: ignore[attr-defined]
        await entered.wait()

    loop = asyncio.new_event_loop()
    loop.run_until_complete(main())
    loop.close()
    del loop
    gc.collect()
    eventually(lambda: not lock.inspect().held)
