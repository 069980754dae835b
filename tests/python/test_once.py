"""`once` in Python: every way to run a function, and mistakes. `conformance/test_once.py` has the guarantees."""

import asyncio
import functools
import inspect
import pickle
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import redlock
import trio
from redlock.testing import TestRedlock

from tests.servers import Server

DAY = 86400


@pytest.fixture
def fake() -> Iterator[TestRedlock]:
    with TestRedlock() as client:
        yield client


def fail() -> None:
    raise KeyError("failed")


async def work(value: object = 7) -> object:
    await asyncio.sleep(0)
    return value


def test_run_passes_arguments_and_returns_the_value(fake: TestRedlock) -> None:
    once = fake.once("payment", remember=DAY)
    assert once.run(str.upper, "charged") == (True, "CHARGED")
    assert once.run(str.upper, "charged") == (False, None)
    assert fake.once("other", remember=DAY).run(dict, a=1) == (True, {"a": 1})
    assert repr(once) == "<redlock.Once payment>"
    assert once.key == "lock:payment"


def test_cancelled_run_leaves_no_memory(redis_server: Server, name: str) -> None:
    with redlock.Redlock(redis_server.url) as client:

        async def acharge() -> None:
            once = client.as_async().once(name, remember=DAY)
            with pytest.raises(KeyError):
                await once.run(functools.partial(asyncio.to_thread, fail))
            begun = asyncio.Event()
            task = asyncio.ensure_future(once.run(endless, begun))
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert redis_server.client.exists(f"lock:{name}") == 0
            assert await once.run(work) == (True, 7)
            assert await once.run(work) == (False, None)

        asyncio.run(acharge())


async def endless(begun: asyncio.Event) -> None:
    begun.set()
    await asyncio.Event().wait()


def test_decorates_every_kind_of_function(fake: TestRedlock) -> None:
    @fake.once("plain:{id}", remember=DAY)
    def plain(id: int) -> str:
        """Its docstring."""
        return f"charged {id}"

    assert [plain(1), plain(1), plain(2)] == ["charged 1", None, "charged 2"]
    assert (plain.__name__, plain.__doc__) == ("plain", "Its docstring.")

    class Shop:
        @fake.once("method:{id}", remember=DAY)
        def method(self, id: int) -> int:
            return id

        @staticmethod
        @fake.once("static", remember=DAY)
        def static() -> int:
            return 1

        @fake.once("class", remember=DAY)
        @classmethod
        def of_class(cls) -> type:
            return cls

    assert (Shop().method(3), Shop().method(3)) == (3, None)
    assert (Shop.static(), Shop.static()) == (1, None)
    assert (Shop.of_class(), Shop.of_class()) == (Shop, None)

    @fake.once("coroutine:{value}", remember=DAY)
    async def coroutine(value: int) -> object:
        return await work(value)

    @fake.as_async().once(lambda value: f"async:{value}", remember=DAY)
    async def awaited(value: int) -> object:
        return await work(value)

    async def main() -> None:
        for function in (coroutine, awaited):
            assert inspect.iscoroutinefunction(function)
            assert [await function(4), await function(4), await function(5)] == [4, None, 5]

    asyncio.run(main())


def test_async_client(fake: TestRedlock) -> None:
    async def main() -> None:
        once = fake.as_async().once("payment", remember=DAY)
        assert await once.run(work, value=8) == (True, 8)
        assert await once.run(work) == (False, None)
        with pytest.raises(TypeError, match="not an 'async def'"):
            await once.run(int)  # type: ignore[arg-type]

    asyncio.run(main())


def test_trio(fake: TestRedlock) -> None:
    async def charge() -> int:
        await trio.lowlevel.checkpoint()
        return 7

    async def main() -> None:
        # A cancelled acquire releases its grant in the background.
        once = fake.as_async().once("payment", remember=DAY, wait=60)
        with trio.CancelScope() as scope:
            scope.cancel()
            await once.run(trio.sleep_forever)
        assert scope.cancelled_caught
        assert await once.run(charge) == (True, 7)
        assert await once.run(charge) == (False, None)

    trio.run(main)


def test_loss_cancels_the_function(fake: TestRedlock) -> None:
    async def main() -> None:
        begun = asyncio.Event()
        once = fake.as_async().once("payment", remember=DAY)
        task = asyncio.ensure_future(once.run(endless, begun))
        await begun.wait()
        await fake.as_async().lose("payment")
        with pytest.raises(redlock.LockLost):
            await task
        assert await once.run(work) == (True, 7)

    asyncio.run(main())


def test_function_that_forgot_to_await_is_not_remembered(fake: TestRedlock) -> None:
    async def forgot() -> object:
        return work()

    async def main() -> None:
        once = fake.as_async().once("payment", remember=DAY)
        with pytest.raises(TypeError, match="Await it"):
            await once.run(forgot)
        assert await once.run(work) == (True, 7)

    asyncio.run(main())


def test_module_function_uses_the_default_client() -> None:
    redlock.configure("memory://once-default", replace=True)
    assert redlock.once("payment", remember=DAY).run(int) == (True, 0)
    assert redlock.once("payment", remember=DAY).run(int) == (False, None)


def test_unconfirmed_memory_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A node that gets the release keeps the key for longer than the TTL."""
    for function, stays in (
        (lambda: None, "each node keeps the key until its TTL or remember ends"),
        (fail, "the key expires when its TTL ends"),
    ):
        with TestRedlock() as client, suppress(KeyError):

            def body() -> None:
                client.fail()
                function()  # noqa: B023  # called in this round

            client.once("job", remember=DAY).run(body)
        [record] = caplog.get_records("call")
        text = record.getMessage()
        assert text.startswith("not released: "), text
        assert f"lock:job: release not confirmed, so {stays}. The node failed; " in text, text
        caplog.clear()


def test_run_on_an_event_loop_names_the_call_to_await(fake: TestRedlock) -> None:
    instead = "'await client.once(...).run(...)' of an AsyncRedlock, or '@once' over an 'async def'"

    async def main() -> None:
        once = fake.once("job", remember=DAY)
        with pytest.warns(RuntimeWarning, match=re.escape(f"the event loop; use {instead}")):
            assert once.run(int, "7") == (True, 7)
        # Neither of these blocks the loop.
        assert await fake.as_async().once("job", remember=DAY).run(work) == (False, None)
        assert await once(work)() is None

    asyncio.run(main())


def test_pickles() -> None:
    client = redlock.Redlock("memory://once-pickle")
    once = client.once("payment", remember=DAY)
    assert once.run(int) == (True, 0)
    again: redlock.Once = pickle.loads(pickle.dumps(once))
    assert again.run(int) == (False, None)
    awaited = pickle.loads(pickle.dumps(client.as_async().once("payment", remember=DAY)))
    assert isinstance(awaited, redlock.AsyncOnce)


def test_mistakes_are_explained(fake: TestRedlock) -> None:
    once = fake.once("payment", remember=DAY)
    values: list[tuple[dict[str, Any], str]] = [
        ({"remember": -1}, "remember must be a number of seconds, 0 or more"),
        ({"remember": 1, "min_hold": 1}, "min_hold"),
    ]
    for options, text in values:
        with pytest.raises(redlock.InvalidOption, match=text):
            fake.once("payment", **options)
    with pytest.raises(TypeError, match="remember"):
        fake.once("payment")  # type: ignore[call-arg]
    with pytest.raises(redlock.InvalidOption, match="run of once"):
        fake.lock("payment", remember=1)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="not a function"):
        once.run(7)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="generator"):
        once.run(lambda: (yield))
    # The lease ends before such an awaitable runs.
    with pytest.raises(TypeError, match="as_async"):
        once.run(work)
    with pytest.raises(TypeError, match="awaitable"):
        once.run(lambda: work())
    with pytest.raises(TypeError, match="constructor"):
        redlock.Once()
    with pytest.raises(redlock.InvalidOption, match="function of arguments"):
        fake.once(lambda: "payment", remember=1).run(int)
    assert once.run(int) == (True, 0)
