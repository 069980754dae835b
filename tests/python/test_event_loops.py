"""Event loops: batches, kinds, threads, and their end."""

import asyncio
import contextvars
import gc
import os
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import redlock

from tests.waiting import aeventually, eventually, forever

REQUEST: "contextvars.ContextVar[Request]" = contextvars.ContextVar("request")


def test_one_wake_up_per_batch(client: redlock.Redlock, name: str) -> None:
    async def main() -> None:
        loop: Any = asyncio.get_running_loop()
        await (await client.lock(name).as_async().acquire()).release()
        wakes = 0
        (completions,) = [
            key.data[0]._callback
            for key in loop._selector.get_map().values()
            if key.data[0] and type(key.data[0]._callback).__name__ == "Reader"
        ]

        def counted() -> None:
            nonlocal wakes
            wakes += 1
            completions()

        (fd,) = [
            key.fd
            for key in loop._selector.get_map().values()
            if key.data[0] and key.data[0]._callback is completions
        ]
        loop.add_reader(fd, counted)
        locks = [client.lock(f"{name}-{number}") for number in range(200)]
        acquiring = [asyncio.create_task(lock.as_async().acquire()) for lock in locks]
        await asyncio.sleep(0)
        # The loop is blocked until all are granted.
        eventually(lambda: all(lock.inspect().held for lock in (locks[0], locks[-1])))
        leases = await asyncio.gather(*acquiring)
        assert wakes <= 3
        await asyncio.gather(*(lease.release() for lease in leases))

    asyncio.run(main())


class NoReaders(asyncio.SelectorEventLoop):
    """An event loop that cannot watch file descriptors."""

    def add_reader(self, fd: Any, callback: Callable[..., Any], *args: Any) -> Any:
        if type(callback).__name__ == "Reader":
            raise NotImplementedError
        return super().add_reader(fd, callback, *args)


def new_loop(kind: str) -> Callable[[], asyncio.AbstractEventLoop]:
    if kind == "uvloop":
        import uvloop

        return uvloop.new_event_loop
    return NoReaders if kind == "no readers" else asyncio.SelectorEventLoop


kinds = pytest.mark.parametrize("kind", ["selector", "no readers", "uvloop"])


class Request:
    """What a program keeps in a context variable."""


@kinds
def test_loop_keeps_no_context_variables_of_the_first_call(
    client: redlock.Redlock, name: str, kind: str
) -> None:
    requests: list[weakref.ref[Request]] = []

    async def serve() -> None:
        request = Request()
        REQUEST.set(request)
        requests.append(weakref.ref(request))
        async with client.lock(name):
            pass

    async def main() -> None:
        await asyncio.create_task(serve())
        # Until then, asyncio itself keeps the task.
        await asyncio.sleep(0)
        gc.collect()
        assert requests[0]() is None
        async with client.lock(name):
            pass

    with asyncio.Runner(loop_factory=new_loop(kind)) as runner:
        runner.run(main())


@kinds
def test_locks_work_on_every_kind_of_loop(client: redlock.Redlock, name: str, kind: str) -> None:
    async def main() -> None:
        async def once(number: int) -> None:
            async with client.lock(f"{name}-{number % 5}", wait=10) as lease:
                assert lease.held

        await asyncio.gather(*(once(number) for number in range(50)))
        with pytest.raises(redlock.LockLost):
            async with client.lock(name):
                await client.as_async().force_release(name)
                await forever()

    with asyncio.Runner(loop_factory=new_loop(kind)) as runner:
        runner.run(main())


@kinds
def test_callback_that_waits_for_a_loop_does_not_block_it(
    client: redlock.Redlock, name: str, kind: str
) -> None:
    async def use() -> bool:
        async with client.lock(f"{name}-other") as lease:
            return lease.held

    async def main() -> bool:
        loop, used = asyncio.get_running_loop(), asyncio.Event()
        lease = (await client.lock(name).as_async().acquire()).as_sync()

        def wait_for_loop(_: redlock.LockLost) -> None:
            held.append(asyncio.run_coroutine_threadsafe(use(), loop).result())
            loop.call_soon_threadsafe(used.set)

        # No loop runs in that thread, so the callback runs in the thread of the dispatcher.
        await asyncio.to_thread(lease.on_lost, wait_for_loop)
        await client.as_async().force_release(name)
        await asyncio.wait_for(used.wait(), 20)
        return held[0]

    held: list[bool] = []
    with asyncio.Runner(loop_factory=new_loop(kind)) as runner:
        assert runner.run(main())


class InterruptedLoop(asyncio.SelectorEventLoop):
    """An event loop in whose code a Ctrl-C arrives, when it begins to watch the connections."""

    def add_reader(self, fd: Any, callback: Callable[..., Any], *args: Any) -> Any:
        if type(callback).__name__ == "Reader":
            raise KeyboardInterrupt
        return super().add_reader(fd, callback, *args)


def test_ctrl_c_is_raised_while_the_first_call_of_a_loop_begins(
    client: redlock.Redlock, name: str
) -> None:
    async def main() -> None:
        await client.lock(name).as_async().acquire()

    with asyncio.Runner(loop_factory=InterruptedLoop) as runner, pytest.raises(KeyboardInterrupt):
        runner.run(main())


@kinds
@pytest.mark.parametrize("granted", ["before", "after"])
def test_grant_to_a_closed_loop_is_released(
    redis_client: redlock.Redlock, name: str, kind: str, granted: str
) -> None:
    """The loop never runs again, although an object still refers to it and to the request."""
    loop = new_loop(kind)()
    redis_client.lock(name).acquire().release()

    async def main() -> Any:
        acquire: Any = redis_client.lock(name, ttl=600)._start_acquire((main.__code__, 0))
        return acquire, acquire.start()

    kept = loop.run_until_complete(main())
    if granted == "before":
        eventually(lambda: redis_client.lock(name).inspect().held)
    loop.close()
    with redis_client.lock(name, ttl=600).acquire(wait=60) as lease:
        assert redis_client.leases() == [lease]
    assert not redis_client.lock(name).inspect().held
    kept[0].give_up()


@kinds
def test_closed_loop_is_not_notified(redis_client: redlock.Redlock, kind: str) -> None:
    """Another loop at the same address is not affected, nor is the loss of its lease."""
    for _ in range(50):
        loop = new_loop(kind)()
        notified: list[object] = []

        async def main(notified: list[object] = notified) -> redlock.Lease:
            lease = await redis_client.lock("closed", ttl=20, wait=10).as_async().acquire()
            lease.on_lost(notified.append)
            return lease

        lease = loop.run_until_complete(main())
        loop.close()
        redis_client.force_release("closed")
        eventually(lambda: not lease.held)  # noqa: B023
        assert notified == []


@pytest.mark.parametrize("kind", ["selector", "no readers", "uvloop"])
def test_closed_loops_are_collected(client: redlock.Redlock, name: str, kind: str) -> None:
    async def main() -> None:
        async with client.lock(name):
            pass

    def use() -> "weakref.ref[Any]":
        loop = new_loop(kind)()
        loop.run_until_complete(main())
        loop.close()
        return weakref.ref(loop)

    before = len(os.listdir("/proc/self/fd"))
    loops = [use() for _ in range(10)]

    def collected() -> bool:
        gc.collect()  # the waker may be about to wake one
        return not any(loop() for loop in loops)

    eventually(collected)
    assert len(os.listdir("/proc/self/fd")) <= before + 2  # uvloop opens some with its first loop


def test_loops_in_many_threads_exclude_each_other(client: redlock.Redlock, name: str) -> None:
    inside = entered = 0

    async def once() -> None:
        nonlocal inside, entered
        async with client.lock(name, wait=20):
            inside += 1
            assert inside == 1
            await asyncio.sleep(0)
            inside -= 1
            entered += 1

    async def main() -> None:
        await asyncio.gather(*(once() for _ in range(5)))

    threads = [threading.Thread(target=asyncio.run, args=(main(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert entered == 20


@pytest.mark.skipif(sys.platform != "linux", reason="counts descriptors in /proc")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_dropped_loop_with_a_waiting_task_is_collected(client: redlock.Redlock, name: str) -> None:
    """The loop is neither closed nor referred to. Its task waits for a lock."""
    lock = client.lock(name, ttl=300)

    def dropped() -> "weakref.ref[asyncio.AbstractEventLoop]":
        loop = asyncio.new_event_loop()
        loop.set_exception_handler(lambda *_: None)

        async def main() -> asyncio.Task[Any]:
            waiting = asyncio.create_task(lock.as_async().acquire())
            await aeventually(lambda: client.stats().waiting == 1)
            return waiting

        loop.run_until_complete(main())
        return weakref.ref(loop)

    with lock:
        before = len(os.listdir("/proc/self/fd"))
        loops = []
        for _ in range(3):
            loops.append(dropped())
            gc.collect()
            eventually(lambda: client.stats().waiting == 0)
        assert [loop() for loop in loops] == [None] * 3
        # A loop has 7 descriptors. The client may have opened a connection meanwhile.
        assert len(os.listdir("/proc/self/fd")) < before + 7
