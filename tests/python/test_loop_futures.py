"""The futures that redlock's coroutines await: asyncio accepts them, and their task continues immediately."""

import asyncio
import gc
import weakref
from typing import Any

import pytest
import redlock

from tests.servers import Server
from tests.waiting import eventually, forever

from .processes import run


def future(client: redlock.Redlock, name: str) -> Any:
    """Returns one of these futures while it is pending."""
    return client.lock(name)._inspect()


class Incomparable:
    def __eq__(self, other: object) -> bool:
        raise ZeroDivisionError


def test_asyncio_functions_accept_the_future(client: redlock.Redlock, name: str) -> None:
    async def main() -> None:
        def ask() -> Any:
            return future(client, name)

        assert asyncio.isfuture(ask())
        assert [found.held for found in await asyncio.gather(ask(), ask())] == [False] * 2
        assert not (await asyncio.shield(ask())).held
        assert not (await asyncio.wait_for(ask(), 5)).held
        done, pending = await asyncio.wait({ask(), ask()}, timeout=5)
        assert (len(done), len(pending)) == (2, 0)
        for next_one in asyncio.as_completed([ask(), ask()]):
            assert not (await next_one).held

    asyncio.run(main())


def test_future_has_the_methods_of_an_asyncio_future(client: redlock.Redlock, name: str) -> None:
    async def main() -> None:
        pending, notified = future(client, name), asyncio.Event()
        called_with: list[Any] = []
        pending.add_done_callback(called_with.append)
        pending.add_done_callback(print)
        assert pending.remove_done_callback(print) == 1
        with pytest.raises(ZeroDivisionError):
            pending.remove_done_callback(Incomparable())
        assert repr(pending) == "<redlock._LoopFuture pending>"
        pending.add_done_callback(lambda _: notified.set())
        assert (pending.done(), pending.cancelled()) == (False, False)
        for early in (pending.result, pending.exception):
            with pytest.raises(asyncio.InvalidStateError):
                early()
        await notified.wait()
        assert called_with == [pending]
        assert (pending.done(), pending.exception(), pending.result().held) == (True, None, False)
        assert pending.get_loop() is asyncio.get_running_loop()
        assert pending.cancel() is False
        assert (await pending).held is False

    asyncio.run(main())


def test_cancelled_future_raises_cancelled_error(client: redlock.Redlock, name: str) -> None:
    async def main() -> None:
        pending = future(client, name)
        waiting = asyncio.gather(pending, return_exceptions=True)
        assert pending.cancel("enough") is True
        (cancelled,) = await waiting
        assert isinstance(cancelled, asyncio.CancelledError)
        assert pending.cancelled()
        with pytest.raises(asyncio.CancelledError, match="enough"):
            await pending

    asyncio.run(main())


def test_two_tasks_can_await_one_future(client: redlock.Redlock, name: str) -> None:
    async def main() -> None:
        pending = future(client, name)

        async def wait() -> bool:
            return bool((await pending).held)

        assert await asyncio.gather(wait(), wait()) == [False, False]

    asyncio.run(main())


@pytest.mark.parametrize("retrieves", [True, False])
def test_unretrieved_exception_is_reported(retrieves: bool) -> None:
    client = redlock.Redlock("redis://127.0.0.1:1")
    reported: list[dict[str, Any]] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, about: reported.append(about))
        pending = future(client, "job")
        await asyncio.wait({pending}, timeout=10)
        assert pending.done()
        if retrieves:
            assert isinstance(pending.exception(), redlock.QuorumUnavailable)
        del pending
        gc.collect()

    asyncio.run(main())
    assert [type(about["exception"]) for about in reported] == (
        [] if retrieves else [redlock.QuorumUnavailable]
    )


def test_exception_keeps_no_frame_alive() -> None:
    """The error refers to the awaiting frame, which refers to the future, which refers to the error."""

    class Big:
        pass

    refs: list[weakref.ref[Big]] = []

    async def fail(client: redlock.Redlock) -> None:
        big = Big()
        refs.append(weakref.ref(big))
        pending = client.lock("job")._attach((fail.__code__, 0), "0" * 32)
        with pytest.raises(redlock.LockError):
            await pending

    async def main() -> None:
        client = redlock.Redlock("memory://")
        for _ in range(3):
            await fail(client)

    asyncio.run(main())
    gc.collect()
    assert [ref() for ref in refs] == [None] * 3


def test_debug_mode_uses_an_asyncio_future(client: redlock.Redlock, name: str) -> None:
    """Otherwise debug mode would attribute a task's step to our callback."""

    async def main() -> None:
        assert type(future(client, name)) is asyncio.Future

    asyncio.run(main(), debug=True)


@pytest.mark.parametrize("ends", [KeyboardInterrupt, SystemExit])
def test_exit_exceptions_end_the_loop(
    client: redlock.Redlock, name: str, ends: type[BaseException]
) -> None:
    """An exception is raised in a task's step, in the middle of a batch. The others are cancelled, and no lease stays
    behind.
    """

    async def work(number: int) -> None:
        lease = await client.lock(f"{name}-{number}", ttl=60).as_async().acquire()
        if number == 1:
            raise ends
        await forever()
        await lease.release()

    async def main() -> None:
        await asyncio.gather(*(work(number) for number in range(8)))

    with pytest.raises(ends):
        asyncio.run(main())

    async def after() -> bool:
        async with client.lock(f"{name}-after", wait=0) as lease:
            return lease.held

    assert asyncio.run(after())


def test_replies_read_inside_a_task_resume_waiters_later(
    client: redlock.Redlock, name: str
) -> None:
    """As with `nest_asyncio`: replies are read while a task runs, and their waiters continue afterwards."""

    async def main() -> None:
        loop: Any = asyncio.get_running_loop()
        order: list[str] = []

        async def waits() -> None:
            await future(client, name)
            order.append("answered")

        await future(client, name)
        waiting = asyncio.create_task(waits())
        await asyncio.sleep(0)
        (reader,) = [
            key.data[0]
            for key in loop._selector.get_map().values()
            if key.data[0] and type(key.data[0]._callback).__name__ == "Reader"
        ]
        for _ in range(2000):
            reader._callback()
            if waiting._fut_waiter is None or waiting._fut_waiter.done():  # type: ignore[attr-defined]
                break
        order.append("read")
        await asyncio.wait_for(waiting, 5)
        assert order == ["read", "answered"]

    asyncio.run(main())


def test_context_variables_are_those_of_the_task(client: redlock.Redlock, name: str) -> None:
    import contextvars

    mine: contextvars.ContextVar[int] = contextvars.ContextVar("mine", default=0)

    async def work(number: int) -> bool:
        mine.set(number)
        async with client.lock(f"{name}-{number}"):
            return mine.get() == number and asyncio.current_task() is not None

    async def main() -> None:
        assert all(await asyncio.gather(*(work(number) for number in range(1, 9))))
        assert mine.get() == 0

    asyncio.run(main())


NESTED = """
import asyncio, sys, nest_asyncio, redlock

if sys.argv[2] == "before":
    nest_asyncio.apply()
client = redlock.Redlock(sys.argv[1])


async def inner():
    async with client.lock("inner", ttl=9):
        return "done"


async def outer():
    async with client.lock("outer", ttl=9):
        return asyncio.get_running_loop().run_until_complete(asyncio.wait_for(inner(), 20))


async def main():
    async with client.lock("first", ttl=9):
        pass
    nest_asyncio.apply()
    return await asyncio.create_task(outer())

print(asyncio.run(main()))
"""


@pytest.mark.parametrize("when", ["before", "later"])
def test_nested_loop_works_inside_a_resumed_task(redis_server: Server, when: str) -> None:
    """As with nest_asyncio in notebooks: an event loop that runs inside our callback cannot call it."""
    program = run(NESTED, redis_server.url, when)
    said, wrong = program.communicate(timeout=40)
    assert (said, wrong, program.returncode) == ("done\n", "", 0)


def test_releases_of_one_turn_are_sent_while_the_loop_is_blocked(
    redis_server: Server, client: redlock.Redlock, name: str
) -> None:
    names = [f"{name}-{number}" for number in range(3)]

    async def main() -> None:
        leases = await asyncio.gather(*(client.lock(name).as_async().acquire() for name in names))
        keys = [lease.key for lease in leases]

        async def release(lease: redlock.Lease) -> None:
            await lease.release()

        releases = [asyncio.create_task(release(lease)) for lease in leases]
        # In the turn of the releases, after them. This loop runs nothing else until the keys are deleted.
        asyncio.get_running_loop().call_soon(
            eventually, lambda: not redis_server.client.exists(*keys), "the releases were not sent"
        )
        await asyncio.gather(*releases)

    asyncio.run(main())
