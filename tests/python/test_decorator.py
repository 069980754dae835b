"""`@lock` over every kind of callable: each call runs with the lock held, or is refused, and never runs without it."""

import asyncio
import contextlib
import functools
import gc
import inspect
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest
import redlock

from tests.waiting import aeventually, eventually, forever

Held = Callable[[], bool]

#: The callable looks like a plain function, so the lock is acquired before the coroutine is known.
blocks = pytest.mark.filterwarnings("ignore:.*waiting here blocks the event loop:RuntimeWarning")


@pytest.fixture
def held(client: redlock.Redlock, name: str) -> Held:
    """Returns whether the lock is held."""
    return lambda: client.lock(name).inspect().held


async def work(held: Held) -> bool:
    before = held()
    await asyncio.sleep(0)
    return before and held()


def wrapped(held: Held) -> Callable[..., Any]:
    async def inner() -> bool:
        return await work(held)

    @functools.wraps(inner)
    def outer() -> Any:
        return inner()

    return outer


class Called:
    def __init__(self, held: Held) -> None:
        self.held = held

    async def __call__(self) -> bool:
        return await work(self.held)


class Plain(Called):
    def __call__(self) -> Any:  # type: ignore[override]
        return work(self.held)


class Custom:
    def __init__(self, held: Held) -> None:
        self.held = held

    def __await__(self) -> Any:
        return work(self.held).__await__()


def marked(held: Held) -> Callable[..., Any]:
    def function() -> Any:
        return work(held)

    if sys.version_info >= (3, 12):
        return inspect.markcoroutinefunction(function)
    function._is_coroutine = asyncio.coroutines._is_coroutine  # type: ignore[attr-defined]
    return function


class Owner:
    """Methods of every kind, with a lock that the caller provides."""

    held: Held

    @classmethod
    async def of_class(cls) -> bool:
        return await work(cls.held)

    @staticmethod
    async def static() -> bool:
        return await work(Owner.held)


KINDS: dict[str, Callable[[Held], Callable[[], Awaitable[bool]]]] = {
    "wrapper": wrapped,
    "object": Called,
    "plain-object": Plain,
    "lambda": lambda held: lambda: work(held),
    "partial": lambda held: functools.partial(work, held),
    "partial-lambda": lambda held: functools.partial(lambda held: work(held), held),
    "custom-awaitable": lambda held: lambda: Custom(held),
    "task": lambda held: lambda: asyncio.ensure_future(work(held)),
    "marked": marked,
    "bound-method": lambda held: Called(held).__call__,
}


@blocks
@pytest.mark.parametrize("kind", KINDS)
def test_returned_awaitable_runs_with_the_lock_held(
    client: redlock.Redlock, name: str, held: Held, kind: str
) -> None:
    async def main() -> None:
        function = client.lock(name)(KINDS[kind](held))
        assert await function() is True
        assert not held()
        if kind != "task":
            assert await asyncio.create_task(function()) is True  # type: ignore[arg-type]
        assert not held()

    asyncio.run(main())


def test_class_and_static_methods_can_be_decorated(
    client: redlock.Redlock, name: str, held: Held
) -> None:
    lock = client.lock(name)
    Owner.held = staticmethod(held)  # type: ignore[assignment]
    kinds = {"of_class": classmethod, "static": staticmethod}
    methods = {name: lock(vars(Owner)[name]) for name in kinds}
    made = type("Made", (Owner,), methods)
    for name_, kind in kinds.items():
        assert isinstance(vars(made)[name_], kind)
        assert asyncio.run(getattr(made, name_)()) is True
        assert asyncio.run(getattr(made(), name_)()) is True
    assert not held()


@blocks
def test_returned_future_completes_without_an_await(
    client: redlock.Redlock, name: str, held: Held
) -> None:
    async def main() -> None:
        future = asyncio.get_running_loop().create_future()
        answer: Any = client.lock(name)(lambda: future)()
        assert isinstance(answer, asyncio.Future)
        await asyncio.sleep(0)
        assert held()
        future.set_result(5)
        await aeventually(answer.done)  # nothing awaits it
        assert answer.result() == 5
        assert not held()

    asyncio.run(main())


def generator(held: Held) -> Iterator[int]:
    yield 1


async def async_generator(held: Held) -> AsyncIterator[int]:
    yield 1


class Yields:
    def __call__(self, held: Held) -> Iterator[int]:
        yield 1


def hidden(function: Any) -> Any:
    @functools.wraps(function)
    def outer(*args: Any) -> Any:
        return function(*args)

    return outer


GENERATORS = [generator, async_generator, Yields(), functools.partial(generator)]
GENERATOR_NAMES = ["generator", "async generator", "callable object", "partial"]


@pytest.mark.parametrize("function", GENERATORS, ids=GENERATOR_NAMES)
def test_a_generator_is_refused(client: redlock.Redlock, name: str, function: Any) -> None:
    with pytest.raises(TypeError, match=r"is a generator.*Use 'with lock:' inside"):
        client.lock(name)(function)


@pytest.mark.parametrize(
    "function",
    [
        *map(hidden, GENERATORS),
        contextlib.contextmanager(generator),
        contextlib.asynccontextmanager(async_generator),
    ],
    ids=[
        *(f"wrapped {kind}" for kind in GENERATOR_NAMES),
        "context manager",
        "async context manager",
    ],
)
def test_function_that_returns_a_generator_is_refused_at_the_call(
    client: redlock.Redlock, name: str, held: Held, function: Any
) -> None:
    with pytest.raises(TypeError, match=r"is a generator.*Use 'with lock:' inside"):
        client.lock(name)(function)(held)
    assert not held()

    async def main() -> None:
        @client.lock(name)
        async def returns() -> Any:
            return function(held)

        with pytest.raises(TypeError, match="is a generator"):
            await returns()

    asyncio.run(main())
    assert not held()


def test_unawaited_coroutine_releases_the_lock(
    client: redlock.Redlock, name: str, held: Held
) -> None:
    def forgets() -> None:
        client.lock(name)(lambda: work(held))()
        gc.collect()

    with pytest.warns(RuntimeWarning, match="never awaited") as warned:
        forgets()
    assert len(warned) == 1
    warned.clear()  # a warning keeps its subject alive
    eventually(lambda: not held())


@blocks
def test_cancellation_ends_the_awaitable_and_releases(
    client: redlock.Redlock, name: str, held: Held
) -> None:
    seen: list[bool] = []

    async def sleeps() -> None:
        try:
            begun.set()
            await forever()
        finally:
            seen.append(held())

    async def main() -> None:
        task = asyncio.create_task(client.lock(name)(lambda: sleeps())())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert seen == [True]
        assert not held()

    begun = asyncio.Event()
    asyncio.run(main())


@blocks
def test_a_loss_cancels_the_awaitable(client: redlock.Redlock, name: str) -> None:
    async def main() -> None:
        async def body() -> None:
            begun.set()
            await forever()

        begun = asyncio.Event()
        task = asyncio.create_task(client.lock(name)(lambda: body())())
        await begun.wait()
        await client.as_async().force_release(name)
        with pytest.raises(redlock.LockLost):
            await task

    asyncio.run(main())


def test_error_of_the_function_releases(client: redlock.Redlock, name: str, held: Held) -> None:
    def fails() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        client.lock(name)(fails)()
    assert not held()
