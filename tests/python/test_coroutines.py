"""Every async verb is a coroutine function: it acts when it first runs, wherever that is."""

import asyncio
import contextlib
import copy
import gc
import inspect
import pickle
import signal
import sys
import unittest
import warnings
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from types import CoroutineType
from typing import Any

import anyio
import pytest
import redlock
import trio

from tests.servers import Server
from tests.waiting import aeventually

from .processes import run

ROOT = Path(__file__).parents[2]
VERBS: dict[str, list[str]] = {
    "AsyncRedlock": [
        "attach",
        "force_release",
        "release_all",
        "shutdown",
        "__aenter__",
        "__aexit__",
    ],
    "AsyncLock": ["acquire", "try_acquire", "attach", "inspect", "__aenter__", "__aexit__"],
    "AsyncLease": ["extend", "release", "__aenter__", "__aexit__"],
    "Lock": ["__aenter__", "__aexit__"],
}
NAMED = [(owner, verb) for owner, verbs in VERBS.items() for verb in verbs]


#: One call of each verb that would change state or send a command.
CALLS: dict[str, Callable[[redlock.AsyncRedlock, redlock.AsyncLease, str], Any]] = {
    "AsyncLock.acquire": lambda client, _, name: client.lock(f"{name}-1").acquire(),
    "AsyncLock.try_acquire": lambda client, _, name: client.lock(f"{name}-2").try_acquire(),
    "AsyncLock.inspect": lambda client, _, name: client.lock(name).inspect(),
    "AsyncLock.attach": lambda client, lease, name: client.lock(name).attach(lease.token),
    "AsyncLease.extend": lambda _, lease, __: lease.extend(60),
    "AsyncLease.release": lambda _, lease, __: lease.release(),
    "AsyncRedlock.attach": lambda client, lease, name: client.attach(name, lease.token),
    "AsyncRedlock.force_release": lambda client, _, name: client.force_release(name),
    "AsyncRedlock.release_all": lambda client, _, __: client.release_all(),
    "AsyncRedlock.shutdown": lambda client, _, __: client.shutdown(0),
}


@pytest.mark.parametrize(("owner", "verb"), NAMED, ids=[f"{o}.{v}" for o, v in NAMED])
def test_async_verbs_are_coroutine_functions(
    aclient: redlock.AsyncRedlock, owner: str, verb: str
) -> None:
    lock = aclient.lock("job")
    with lock.as_sync().acquire() as lease:
        things: dict[str, Any] = {
            type(thing).__name__: thing
            for thing in (aclient, lock, lock.as_sync(), lease.as_async())
        }
        method = getattr(things[owner], verb)
        for function in (method, getattr(getattr(redlock, owner), verb)):
            assert inspect.iscoroutinefunction(function)
            assert asyncio.iscoroutinefunction(function)
        assert method.__name__ == verb
        assert method.__qualname__ == f"{owner}.{verb}"
        assert "self" not in inspect.signature(method).parameters


#: Methods that return immediately, in both classes.
IMMEDIATE = {
    "close",
    "leases",
    "stats",
    "lock",
    "semaphore",
    "rwlock",
    "once",
    "leader",
    "read",
    "write",
    "ensure_held",
    "detach",
    "on_lost",
    "from_client",
}


@pytest.mark.parametrize("name", ["Redlock", "Lock", "RwLock", "Lease"])
def test_both_classes_have_the_same_members(name: str) -> None:
    """Every verb that waits is a coroutine function of the asynchronous class, also one that is added later."""
    blocking, awaited = getattr(redlock, name), getattr(redlock, f"Async{name}")

    def public(owner: Any) -> set[str]:
        return {each for each in vars(owner) if not each.startswith("_")}

    assert public(blocking) - {"as_async"} == public(awaited) - {"as_sync"}
    for verb in public(blocking) - IMMEDIATE - {"as_async"}:
        if callable(getattr(blocking, verb)):
            assert inspect.iscoroutinefunction(getattr(awaited, verb)), verb
            assert not inspect.iscoroutinefunction(getattr(blocking, verb)), verb
            ours = {*inspect.signature(getattr(blocking, verb)).parameters} - {"args", "kwargs"}
            assert {*inspect.signature(getattr(awaited, verb)).parameters} - {
                "args",
                "kwargs",
            } == ours


def test_clients_and_locks_have_the_same_options() -> None:
    assert inspect.signature(redlock.AsyncRedlock) == inspect.signature(redlock.Redlock)
    assert inspect.signature(redlock.AsyncRedlock.lock) == inspect.signature(redlock.Redlock.lock)


@pytest.mark.parametrize("verb", CALLS)
def test_unawaited_coroutine_does_nothing(
    aclient: redlock.AsyncRedlock, name: str, verb: str
) -> None:
    client = aclient.as_sync()
    lease = client.lock(name, ttl=20).acquire()
    coroutine = CALLS[verb](aclient, lease.as_async(), name)
    assert asyncio.iscoroutine(coroutine)
    assert type(coroutine) is CoroutineType
    with pytest.warns(RuntimeWarning, match=rf"^coroutine '{verb}' was never awaited$"):
        del coroutine
    coroutine = CALLS[verb](aclient, lease.as_async(), name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        coroutine.close()
        del coroutine
        gc.collect()
    assert lease.held
    assert lease.ttl == 20
    assert client.leases() == [lease]
    assert aclient.leases() == [lease.as_async()]
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
def test_verbs_run_as_tasks_in_groups_and_from_threads(
    aclient: redlock.AsyncRedlock, name: str, way: Callable[..., Awaitable[Any]]
) -> None:
    async def main() -> None:
        lock = aclient.lock(name)
        lease = await way(lock.acquire)
        await way(lease.extend, 30)
        assert lease.ttl == 30
        assert (await way(lock.inspect)).held
        await way(lease.release)
        assert not lease.held
        lease = await way(lock.try_acquire)
        other = await way(lock.attach, lease.token)
        assert other.detach()
        assert (await way(aclient.attach, name, lease.token)).detach()
        assert await way(aclient.release_all) == 1
        assert await way(aclient.force_release, name) is False
        assert await way(aclient.shutdown, 0) == 0

    asyncio.run(main())


@pytest.mark.parametrize("host", ["asyncio", "trio"])
def test_start_soon_accepts_a_verb(aclient: redlock.AsyncRedlock, name: str, host: str) -> None:
    """Passes the function itself, without a `lambda`."""

    async def main() -> None:
        lock = aclient.lock(name)
        lease = await lock.acquire()
        async with anyio.create_task_group() as group:
            group.start_soon(lease.release)
        assert not lease.held
        async with anyio.create_task_group() as group:
            group.start_soon(lock.inspect)
        async with anyio.create_task_group() as group:
            group.start_soon(aclient.shutdown, 0)
        with pytest.raises(redlock.ClientClosed):
            await lock.acquire()

    anyio.run(main, backend=host)


def test_trio_runs_a_verb(aclient: redlock.AsyncRedlock, name: str) -> None:
    lease = trio.run(aclient.lock(name).acquire)
    trio.run(lease.release)
    assert not lease.held
    assert trio.run(aclient.shutdown, 0) == 0


def test_asyncio_run_accepts_shutdown(aclient: redlock.AsyncRedlock, name: str) -> None:
    lease = aclient.as_sync().lock(name).acquire()
    assert asyncio.run(aclient.shutdown(0)) == 1
    assert not lease.held
    with pytest.raises(redlock.ClientClosed):
        asyncio.run(aclient.lock(name).acquire())


SIGNALLED = """
import asyncio, signal, sys, redlock

client = redlock.AsyncRedlock(sys.argv[1])


async def main():
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    lease = await client.lock(sys.argv[2], ttl=600).acquire()

    def end():
        ending = loop.create_task(client.shutdown(0))
        ending.add_done_callback(lambda _: ended.set())

    loop.add_signal_handler(signal.SIGTERM, end)
    print("holds", flush=True)
    await ended.wait()
    print(lease.held)

asyncio.run(main())
"""


def test_signal_handler_of_the_loop_can_shut_down_a_client(redis_server: Server, name: str) -> None:
    process = run(SIGNALLED, redis_server.url, name)
    assert process.stdout is not None
    assert process.stdout.readline() == "holds\n"
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=60) == ("False\n", "")
    assert redis_server.client.get(f"lock:{name}") is None


@pytest.mark.parametrize("enters", ["Lock", "AsyncLock", "lease"])
def test_isolated_asyncio_test_case_releases(
    aclient: redlock.AsyncRedlock, name: str, enters: str
) -> None:
    """If `__aexit__` is a coroutine function, it runs in a different task than `__aenter__`."""
    leases: list[redlock.AsyncLease] = []

    class Case(unittest.IsolatedAsyncioTestCase):
        async def asyncSetUp(self) -> None:
            lock = aclient.lock(name)
            thing: Any = lock.as_sync() if enters == "Lock" else lock
            if enters == "lease":
                thing = await lock.acquire()
            leases.append(await self.enterAsyncContext(thing))

        async def test_it(self) -> None:
            assert leases[0].held

    result = unittest.TestResult()
    Case("test_it").run(result)
    assert (result.testsRun, result.errors, result.failures) == (1, [], [])
    assert not leases[0].held
    assert not asyncio.run(aclient.lock(name).inspect()).held


def test_async_exit_stack_releases_leases_and_closes_clients(
    aclient: redlock.AsyncRedlock, name: str
) -> None:
    async def main() -> None:
        lock = aclient.lock(name)
        async with contextlib.AsyncExitStack() as stack:
            lease = await lock.acquire()
            stack.push_async_callback(lease.release)
        assert not lease.held
        async with contextlib.AsyncExitStack() as stack:
            lease = await stack.enter_async_context(lock)
        assert not lease.held
        async with contextlib.AsyncExitStack() as stack:
            assert await stack.enter_async_context(aclient) is aclient
        assert aclient.leases() == []

    asyncio.run(main())


@pytest.mark.parametrize("verb", ["acquire", "try_acquire"])
def test_error_names_the_line_that_created_the_task(
    aclient: redlock.AsyncRedlock, name: str, verb: str
) -> None:
    """A task shows the caller's line, not the line in asyncio that runs the coroutine."""

    async def main() -> None:
        lock = aclient.lock(name)
        lease = await asyncio.create_task(getattr(lock, verb)())
        with pytest.raises(redlock.LockTimeout, match=r"acquired at .*test_coroutines\.py:\d+"):
            await asyncio.create_task(lock.acquire(wait=0))
        await lease.release()

    asyncio.run(main())


def test_a_cancelled_task_that_never_ran_does_nothing(
    aclient: redlock.AsyncRedlock, name: str
) -> None:
    async def main() -> None:
        lease = await aclient.lock(name).acquire()
        releasing = asyncio.create_task(lease.release())
        releasing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await releasing
        assert lease.held
        releasing = asyncio.create_task(lease.release())
        await asyncio.sleep(0)
        releasing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await releasing
        await aeventually(lambda: not aclient.as_sync().lock(name).inspect().held)

    asyncio.run(main())


def test_each_object_converts_to_its_other_form(client: redlock.Redlock, name: str) -> None:
    notified: list[str | None] = []

    async def main() -> None:
        aclient = client.as_async()
        assert aclient.as_sync() is client
        assert aclient.nodes == client.nodes
        lock = client.lock(name, fencing=True)
        alock = lock.as_async()
        assert alock.as_sync() is lock
        for member in ("name", "names", "key", "keys", "ttl", "wait"):
            assert getattr(alock, member) == getattr(lock, member)
        alease = await alock.acquire()
        lease = alease.as_sync()
        assert lease.as_async() == alease
        assert {lease.as_async()} == {alease}
        other = await lock.as_async().attach(lease.token)
        assert other.detach()
        assert lease.as_async() != other
        for member in ("key", "keys", "token", "ttl", "fencing_token", "held"):
            assert getattr(alease, member) == getattr(lease, member)
        assert abs(alease.remaining - lease.remaining) < 1
        alease.on_lost(lambda error: notified.append(error.reason))
        lease.on_lost(lambda error: notified.append(error.reason))
        assert await aclient.force_release(name)
        await aeventually(lambda: len(notified) == 2)
        assert not alease.held
        assert not lease.held

    asyncio.run(main())


def test_a_wrapper_keeps_the_lease_alive(client: redlock.Redlock, name: str) -> None:
    async def main() -> None:
        lease = await client.lock(name).as_async().acquire()
        gc.collect()
        assert lease.held
        with pytest.warns(ResourceWarning, match="collected without a release"):
            del lease
            gc.collect()
        await client.as_async().force_release(name)

    asyncio.run(main())


def test_error_for_async_with_on_a_blocking_object_names_async_with_lock(
    client: redlock.Redlock, name: str
) -> None:
    async def enter(thing: Any) -> None:
        async with thing:
            pytest.fail("entered")

    with client.lock(name).acquire() as lease:
        with pytest.raises(
            TypeError, match=r"<redlock.Lease .*Use 'async with lock:'.*'with lease:'"
        ):
            asyncio.run(enter(lease))
        assert lease.held
    with pytest.raises(TypeError, match=r"<redlock.Redlock .*Use 'async with client\.as_async\(\)"):
        asyncio.run(enter(client))
    # No call above has left the lock held or closed the client.
    with client.lock(name, wait=0):
        pass


#: Errors of Python for a missing or superfluous `await`. Later versions than 3.13 may word them differently.
LANGUAGE_ERRORS = [
    (
        "async with alock.acquire(): pass",
        "'coroutine' object does not support the asynchronous context manager protocol",
    ),
    (
        "with alock.acquire(): pass",
        "'coroutine' object does not support the context manager protocol",
    ),
    ("alock.acquire().release()", "'coroutine' object has no attribute 'release'"),
    ("await lock", "object redlock.Lock can't be used in 'await' expression"),
    ("await lock.acquire()", "object redlock.Lease can't be used in 'await' expression"),
    ("await lock.acquire().release()", "object NoneType can't be used in 'await' expression"),
]


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize(("code", "message"), LANGUAGE_ERRORS)
def test_troubleshooting_explains_a_wrong_await(code: str, message: str) -> None:
    """These calls must not succeed. If they begin to raise an error of ours, the page needs no row."""
    scope: dict[str, Any] = {}
    exec(f"async def main(lock, alock):\n    {code}\n", scope)
    lock = redlock.Redlock("memory://").lock("job", wait=0)
    with pytest.raises((TypeError, AttributeError)) as caught:
        asyncio.run(scope["main"](lock, lock.as_async()))
    assert not isinstance(caught.value, redlock.LockError)
    if sys.version_info < (3, 14):
        assert str(caught.value) == message
    assert f"| `{message}`" in (ROOT / "docs/operate/troubleshooting.md").read_text()
    # The coroutine that nothing awaited is in a cycle. Its warning must not come in another test.
    del caught
    gc.collect()


def test_error_for_with_on_an_async_object_names_async_with(client: redlock.Redlock) -> None:
    with client.lock("job").acquire() as lease:
        for thing in (client.as_async(), client.lock("job").as_async(), lease.as_async()):
            with pytest.raises(TypeError, match=r"does not support 'with'\. Use 'async with"):
                thing.__enter__()  # type: ignore[union-attr]
            with pytest.raises(TypeError, match=r"Async\w+ .*does not support 'with'"), thing:  # type: ignore[union-attr]
                pytest.fail("entered")
    with pytest.raises(TypeError, match="neither true nor false"):
        bool(client.lock("job").as_async())
    with pytest.raises(AttributeError, match="A lease is what 'async with lock as lease:'"):
        _ = client.lock("job").as_async().release  # type: ignore[attr-defined]


def test_an_async_lock_decorates_coroutine_functions_only(
    aclient: redlock.AsyncRedlock, name: str
) -> None:
    lock = aclient.lock(f"{name}-{{number}}", wait=0, default=None)

    @lock
    async def report(number: int) -> int:
        assert (await aclient.lock(f"{name}-{number}").inspect()).held
        return number

    async def main() -> None:
        assert await report(7) == 7
        async with aclient.lock(f"{name}-7"):
            assert await report(7) is None

    asyncio.run(main())
    with pytest.raises(TypeError, match="is not an 'async def'"):
        aclient.lock(name)(lambda: None)  # type: ignore[arg-type]


def test_async_clients_and_locks_can_be_copied_and_pickled(
    aclient: redlock.AsyncRedlock, name: str
) -> None:
    lock = aclient.lock(name, ttl=3)
    assert copy.copy(lock) is lock
    assert copy.deepcopy(aclient) is aclient
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(lock, protocol))
        assert isinstance(again, redlock.AsyncLock)
        assert (again.key, again.ttl) == (lock.key, 3)
        assert isinstance(pickle.loads(pickle.dumps(aclient, protocol)), redlock.AsyncRedlock)
    with pytest.raises(TypeError, match="cannot be copied or pickled"):
        lease = asyncio.run(lock.acquire())
        try:
            pickle.dumps(lease)
        finally:
            asyncio.run(lease.release())
