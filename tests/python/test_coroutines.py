"""Every async verb is a coroutine function: it acts when it first runs, wherever that is."""

import asyncio
import contextlib
import gc
import inspect
import signal
import unittest
import warnings
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import anyio
import pytest
import redlock
import trio

from tests.waiting import aeventually

from .processes import run
from .servers import Server

VERBS: dict[str, list[str]] = {
    "client": ["aattach", "aforce_release", "arelease_all", "ashutdown", "__aenter__", "__aexit__"],
    "lock": ["aacquire", "atry_acquire", "aattach", "ainspect", "__aenter__", "__aexit__"],
    "lease": ["aextend", "arelease", "__aenter__", "__aexit__"],
}
NAMED = [(owner, verb) for owner, verbs in VERBS.items() for verb in verbs]


#: One call of each verb that would change state or send a command.
CALLS: dict[str, Callable[[redlock.Redlock, redlock.Lease, str], Any]] = {
    "Lock.aacquire": lambda client, _, name: client.lock(f"{name}-1").aacquire(),
    "Lock.atry_acquire": lambda client, _, name: client.lock(f"{name}-2").atry_acquire(),
    "Lock.ainspect": lambda client, _, name: client.lock(name).ainspect(),
    "Lock.aattach": lambda client, lease, name: client.lock(name).aattach(lease.token),
    "Lease.aextend": lambda _, lease, __: lease.aextend(60),
    "Lease.arelease": lambda _, lease, __: lease.arelease(),
    "Redlock.aattach": lambda client, lease, name: client.aattach(name, lease.token),
    "Redlock.aforce_release": lambda client, _, name: client.aforce_release(name),
    "Redlock.arelease_all": lambda client, _, __: client.arelease_all(),
    "Redlock.ashutdown": lambda client, _, __: client.ashutdown(0),
}


@pytest.mark.parametrize(("owner", "verb"), NAMED, ids=[f"{o}.{v}" for o, v in NAMED])
def test_is_a_coroutine_function(client: redlock.Redlock, name: str, owner: str, verb: str) -> None:
    with client.lock(name).acquire() as lease:
        things: dict[str, Any] = {"client": client, "lock": client.lock(name), "lease": lease}
        method = getattr(things[owner], verb)
        for function in (method, getattr(type(things[owner]), verb)):
            assert inspect.iscoroutinefunction(function)
            assert asyncio.iscoroutinefunction(function)
        assert method.__name__ == verb
        assert method.__qualname__.endswith(f".{verb}")
        assert "self" not in inspect.signature(method).parameters


def test_every_verb_with_an_a_is_one() -> None:
    """Verbs that are added later must be coroutine functions too."""
    for owner in (redlock.Redlock, redlock.Lock, redlock.Lease):
        for verb in vars(owner):
            if verb.startswith("a") and hasattr(owner, verb[1:]):
                assert inspect.iscoroutinefunction(getattr(owner, verb)), verb


@pytest.mark.parametrize("verb", CALLS)
def test_does_nothing_unless_it_is_awaited(client: redlock.Redlock, name: str, verb: str) -> None:
    lease = client.lock(name, ttl=20).acquire()
    coroutine = CALLS[verb](client, lease, name)
    assert asyncio.iscoroutine(coroutine)
    with pytest.warns(RuntimeWarning, match=rf"^coroutine '{verb}' was never awaited$"):
        del coroutine
    coroutine = CALLS[verb](client, lease, name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        coroutine.close()
        del coroutine
        gc.collect()
    assert lease.held
    assert lease.ttl == 20
    assert client.leases() == [lease]
    assert client.lock(name).inspect().held
    lease.release()


async def as_task(function: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> Any:
    return await asyncio.create_task(function(*args))


async def in_group(function: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> Any:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(function(*args))
    return task.result()


async def threadsafe(function: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> Any:
    loop = asyncio.get_running_loop()

    def call() -> Any:
        return asyncio.run_coroutine_threadsafe(function(*args), loop).result(20)

    return await asyncio.to_thread(call)


async def limited(function: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> Any:
    return await asyncio.wait_for(function(*args), 20)


async def gathered(function: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> Any:
    (result,) = await asyncio.gather(function(*args))
    return result


@pytest.mark.parametrize("way", [as_task, in_group, threadsafe, limited, gathered])
def test_runs_in_every_way_of_asyncio(
    client: redlock.Redlock, name: str, way: Callable[..., Awaitable[Any]]
) -> None:
    async def main() -> None:
        lock = client.lock(name)
        lease = await way(lock.aacquire)
        await way(lease.aextend, 30)
        assert lease.ttl == 30
        assert (await way(lock.ainspect)).held
        await way(lease.arelease)
        assert not lease.held
        lease = await way(lock.atry_acquire)
        other = await way(lock.aattach, lease.token)
        assert other.detach()
        assert (await way(client.aattach, name, lease.token)).detach()
        assert await way(client.arelease_all) == 1
        assert await way(client.aforce_release, name) is False
        assert await way(client.ashutdown, 0) == 0

    asyncio.run(main())


@pytest.mark.parametrize("host", ["asyncio", "trio"])
def test_start_soon_takes_it(client: redlock.Redlock, name: str, host: str) -> None:
    """Passes the function itself, without a `lambda`."""

    async def main() -> None:
        lock = client.lock(name)
        lease = await lock.aacquire()
        async with anyio.create_task_group() as group:
            group.start_soon(lease.arelease)
        assert not lease.held
        async with anyio.create_task_group() as group:
            group.start_soon(lock.ainspect)
        async with anyio.create_task_group() as group:
            group.start_soon(client.ashutdown, 0)
        with pytest.raises(redlock.ClientClosed):
            await lock.aacquire()

    anyio.run(main, backend=host)


def test_trio_runs_a_verb(client: redlock.Redlock, name: str) -> None:
    lease = client.lock(name).acquire()
    trio.run(lease.arelease)
    assert not lease.held
    assert trio.run(client.ashutdown, 0) == 0


def test_asyncio_run_ends_a_client(client: redlock.Redlock, name: str) -> None:
    lease = client.lock(name).acquire()
    assert asyncio.run(client.ashutdown(0)) == 1
    assert not lease.held
    with pytest.raises(redlock.ClientClosed):
        client.lock(name).acquire()


SIGNALLED = """
import asyncio, signal, sys, redlock

client = redlock.Redlock(sys.argv[1])


async def main():
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    lease = await client.lock(sys.argv[2], ttl=600).aacquire()

    def end():
        ending = loop.create_task(client.ashutdown(0))
        ending.add_done_callback(lambda _: ended.set())

    loop.add_signal_handler(signal.SIGTERM, end)
    print("holds", flush=True)
    await ended.wait()
    print(lease.held)

asyncio.run(main())
"""


def test_a_signal_handler_of_the_loop_ends_a_client(redis_server: Server, name: str) -> None:
    process = run(SIGNALLED, redis_server.url, name)
    assert process.stdout is not None
    assert process.stdout.readline() == "holds\n"
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=60) == ("False\n", "")
    assert redis_server.client.get(f"lock:{name}") is None


@pytest.mark.parametrize("enters", ["lock", "lease", "aacquire"])
def test_an_isolated_test_case_releases(client: redlock.Redlock, name: str, enters: str) -> None:
    """If `__aexit__` is a coroutine function, it runs in a different task than `__aenter__`."""
    leases: list[redlock.Lease] = []

    class Case(unittest.IsolatedAsyncioTestCase):
        async def asyncSetUp(self) -> None:
            lock = client.lock(name)
            thing: Any = lock if enters == "lock" else lock.aacquire()
            if enters == "lease":
                thing = await thing
            leases.append(await self.enterAsyncContext(thing))

        async def test_it(self) -> None:
            assert leases[0].held

    result = unittest.TestResult()
    Case("test_it").run(result)
    assert (result.testsRun, result.errors, result.failures) == (1, [], [])
    assert not leases[0].held
    assert not client.lock(name).inspect().held


def test_an_exit_stack_calls_what_it_was_given(client: redlock.Redlock, name: str) -> None:
    async def main() -> None:
        lock = client.lock(name)
        async with contextlib.AsyncExitStack() as stack:
            lease = await lock.aacquire()
            stack.push_async_callback(lease.arelease)
        assert not lease.held
        async with contextlib.AsyncExitStack() as stack:
            lease = await stack.enter_async_context(lock)
        assert not lease.held
        async with contextlib.AsyncExitStack() as stack:
            assert await stack.enter_async_context(client) is client
        assert client.leases() == []

    asyncio.run(main())


@pytest.mark.parametrize("verb", ["aacquire", "atry_acquire"])
def test_a_task_shows_the_line_that_called(client: redlock.Redlock, name: str, verb: str) -> None:
    """A task shows the caller's line, not the line in asyncio that runs the coroutine."""

    async def main() -> None:
        lock = client.lock(name)
        lease = await asyncio.create_task(getattr(lock, verb)())
        with pytest.raises(redlock.LockTimeout, match=r"acquired at .*test_coroutines\.py:\d+"):
            await asyncio.create_task(lock.aacquire(wait=0))
        await lease.arelease()

    asyncio.run(main())


def test_a_cancelled_task_that_never_ran_does_nothing(client: redlock.Redlock, name: str) -> None:
    async def main() -> None:
        lease = await client.lock(name).aacquire()
        releasing = asyncio.create_task(lease.arelease())
        releasing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await releasing
        assert lease.held
        releasing = asyncio.create_task(lease.arelease())
        await asyncio.sleep(0)
        releasing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await releasing
        await aeventually(lambda: not client.lock(name).inspect().held)

    asyncio.run(main())
