"""`current_lease`: functions that get no lease as an argument can check it, extend it and read its fencing token."""

import asyncio
import contextvars
import os
import sys
import threading
import types
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
import redlock
from redlock.testing import TestRedlock

from tests.waiting import forever


@pytest.fixture
def client() -> TestRedlock:
    return TestRedlock()


def held_key(*_: Any) -> str:
    """Returns the key of the current lease, after a check that it is held."""
    lease = redlock.current_lease()
    lease.ensure_held()
    assert type(lease) is redlock.Lease
    return lease.key


async def aheld_key(*_: Any) -> str:
    await asyncio.sleep(0)
    key = held_key()
    await redlock.current_lease().as_async().extend(20)
    return key


def none_is_left() -> None:
    with pytest.raises(
        RuntimeError, match=r"no function of @lock, @once or run\(\) runs in this context"
    ):
        redlock.current_lease()


SYNC: dict[str, Callable[[Any], Any]] = {
    "lock": lambda client: client.lock("job")(held_key)(),
    "lock of a method": lambda client: client.lock("job")(classmethod(held_key)).__get__(1, int)(),
    "once": lambda client: client.once("job", remember=60)(held_key)(),
    "once.run": lambda client: client.once("job", remember=60).run(held_key)[1],
    "leader.run": lambda client: client.leader("job").run(held_key),
}
ASYNC: dict[str, Callable[[Any], Coroutine[Any, Any, Any]]] = {
    "lock": lambda client: client.lock("job")(aheld_key)(),
    "lock of an AsyncRedlock": lambda client: client.as_async().lock("job")(aheld_key)(),
    "once": lambda client: client.once("job", remember=60)(aheld_key)(),
    "leader.run": lambda client: client.as_async().leader("job").run(aheld_key),
}


@pytest.mark.parametrize("way", SYNC)
def test_a_function_has_its_lease(client: TestRedlock, way: str) -> None:
    assert SYNC[way](client) == "lock:job"
    none_is_left()


@pytest.mark.parametrize("way", ASYNC)
def test_a_coroutine_function_has_its_lease(client: TestRedlock, way: str) -> None:
    async def main() -> None:
        assert await ASYNC[way](client) == "lock:job"
        none_is_left()

    asyncio.run(main())


def test_a_coroutine_function_of_run_has_its_lease(client: TestRedlock) -> None:
    once = client.as_async().once("job", remember=60)
    assert asyncio.run(once.run(aheld_key)) == (True, "lock:job")


@pytest.mark.filterwarnings("ignore:.*blocks the event loop:RuntimeWarning")
@pytest.mark.parametrize("begin", [lambda begun: begun, asyncio.ensure_future])
def test_an_awaitable_that_a_function_returns_has_its_lease(
    client: TestRedlock, begin: Callable[[Any], Any]
) -> None:
    async def main() -> None:
        assert await client.lock("job")(lambda: begin(aheld_key()))() == "lock:job"
        none_is_left()

    asyncio.run(main())


def test_the_innermost_function_has_its_own_lease_and_a_with_changes_nothing(
    client: TestRedlock,
) -> None:
    inner = client.lock("inner")(held_key)

    @client.lock("outer")
    def outer() -> list[str]:
        with client.lock("other"):
            keys = [held_key(), inner(), held_key()]
        with pytest.raises(ZeroDivisionError):
            client.lock("fails")(lambda: 1 // 0)()
        return [*keys, held_key()]

    assert outer() == ["lock:outer", "lock:inner", "lock:outer", "lock:outer"]
    none_is_left()


def test_tasks_of_one_loop_have_different_leases(client: TestRedlock) -> None:
    async def main() -> None:
        calls = [client.lock(f"job-{number}")(aheld_key)() for number in range(5)]
        assert await asyncio.gather(*calls) == [f"lock:job-{number}" for number in range(5)]

    asyncio.run(main())


def test_fencing_token_and_loss_are_those_of_the_lease(client: TestRedlock) -> None:
    @client.lock("job", fencing=True)
    def fenced() -> None:
        lease = redlock.current_lease()
        assert lease.fencing_token is not None
        client.force_release("job")
        while lease.held:
            pass
        assert redlock.current_lease() is lease
        with pytest.raises(redlock.LockLost):
            lease.ensure_held()

    with pytest.raises(redlock.LockLost):
        fenced()


def test_threads_and_later_tasks(client: TestRedlock) -> None:
    seen: list[str] = []
    later: list[asyncio.Task[str]] = []

    @client.lock("job")
    async def body() -> None:
        thread = threading.Thread(target=none_is_left)
        thread.start()
        thread.join()
        seen.append(await asyncio.to_thread(held_key))
        later.append(asyncio.create_task(aheld_key()))

    async def main() -> None:
        await body()
        with pytest.raises(redlock.LockReleased):
            await later[0]

    asyncio.run(main())
    assert seen == ["lock:job"]


def test_a_coroutine_that_is_closed_in_another_context_ends_quietly(client: TestRedlock) -> None:
    @client.lock("job")
    async def body() -> None:
        entered.append(1)
        await forever()

    entered: list[int] = []

    @types.coroutine
    def until_entered(coroutine: Any) -> Iterator[Any]:
        awaited = coroutine.send(None)
        while not entered:
            yield awaited
            awaited = coroutine.send(None)

    async def main() -> None:
        coroutine = body()
        await until_entered(coroutine)
        contextvars.copy_context().run(coroutine.close)

    asyncio.run(main())
    assert client.leases() == []


def test_a_forked_child_sees_that_its_lease_is_lost(client: TestRedlock) -> None:
    @client.lock("job")
    def body() -> int:
        child = os.fork()
        if child == 0:
            try:
                redlock.current_lease().ensure_held()
            except redlock.LockLost as error:
                os._exit(7 if error.reason == "forked" else 1)
            os._exit(2)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    assert body() == 7


class Interrupted(BaseException):
    """What a signal handler raises."""


def interrupt_at(point: int) -> Callable[[Any, str, Any], None]:
    """Raises where Python calls signal handlers: at the start of a function, and after a call of native code."""
    points = iter(range(point + 1))

    def profile(frame: Any, event: str, _: Any) -> None:
        ours = frame.f_code.co_filename.endswith("_current.py")
        if ours and event in ("call", "c_return") and next(points, None) == point:
            sys.setprofile(None)
            raise Interrupted

    return profile


@pytest.mark.parametrize("point", range(4))
@pytest.mark.parametrize("way", ["lock", "once.run", "leader.run", "async"])
def test_a_signal_handler_that_raises_leaves_no_lease_behind(
    client: TestRedlock, way: str, point: int
) -> None:
    async def main() -> None:
        sys.setprofile(interrupt_at(point))
        await client.lock("job")(amain)()

    async def amain() -> None:
        pass

    def outer() -> None:
        with pytest.raises(Interrupted):
            if way == "async":
                asyncio.run(main())
            else:
                sys.setprofile(interrupt_at(point))
                SYNC[way](client)
        assert redlock.current_lease().key == "lock:outer"

    client.lock("outer")(outer)()
    none_is_left()
