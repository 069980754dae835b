"""The line of the program that acquired a lease, as messages name it."""

import _thread
import ast
import asyncio
import contextlib
import itertools
import re
import sys
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import CodeType
from typing import Any

import pytest
import redlock
from redlock.testing import AsyncTestRedlock, TestRedlock

from tests.waiting import eventually


def call_site(lock: redlock.Lock) -> str:
    """Returns the call site of the lease that holds the lock, for a caller of another thread."""
    with ThreadPoolExecutor() as thread, pytest.raises(redlock.LockTimeout) as held:
        thread.submit(lock.acquire, wait=0).result()
    found = re.search(r"acquired at (\S+:\d+)", str(held.value))
    assert found
    return found[1]


def line_below() -> str:
    frame = sys._getframe(1)
    return f"{frame.f_code.co_filename}:{frame.f_lineno + 1}"


def test_each_line_of_a_function_is_named(client: redlock.Redlock, name: str) -> None:
    lock = client.lock(name)
    for _ in range(2):
        expected = line_below()
        lease = lock.acquire()
        assert call_site(lock) == expected
        lease.release()
        expected = line_below()
        with lock:
            assert call_site(lock) == expected


def test_each_line_of_a_coroutine_is_named(aclient: redlock.AsyncRedlock, name: str) -> None:
    lock = aclient.lock(name)

    async def main() -> None:
        for _ in range(2):
            expected = line_below()
            lease = await lock.acquire()
            assert call_site(lock.as_sync()) == expected
            await lease.release()
            expected = line_below()
            async with lock:
                assert call_site(lock.as_sync()) == expected

    asyncio.run(main())


def code_at(line: int) -> CodeType:
    return compile("\n" * (line - 1) + "lease = lock.acquire()", f"made-{line}.py", "exec")


def test_code_that_is_compiled_again_and_again_is_named_and_not_kept(
    client: redlock.Redlock, name: str
) -> None:
    lock = client.lock(name)
    codes: list[Callable[[], Any]] = []
    for line in range(1, 601):
        code = code_at(line)
        codes.append(weakref.ref(code))
        variables: dict[str, Any] = {"lock": lock}
        exec(code, variables)
        del code
        assert call_site(lock) == f"made-{line}.py:{line}"
        variables["lease"].release()
    assert sum(code() is not None for code in codes) <= 256


def test_line_of_a_file_whose_name_is_not_utf_8_is_named(
    client: redlock.Redlock, name: str
) -> None:
    lock = client.lock(name)
    variables: dict[str, Any] = {"lock": lock, "alock": lock.as_async()}
    exec(compile("lease = lock.acquire()", "/srv/caf\udce9/sync.py", "exec"), variables)
    assert re.fullmatch(r"/srv/caf\ufffd+/sync.py:1", call_site(lock))
    variables["lease"].release()

    code = compile(
        "lease = await alock.acquire()",
        "/srv/caf\udce9/task.py",
        "exec",
        flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT,
    )
    asyncio.run(eval(code, variables))
    assert re.fullmatch(r"/srv/caf\ufffd+/task.py:1", call_site(lock))
    variables["lease"].as_sync().release()


@pytest.mark.parametrize("method", ["acquire", "try_acquire", "__enter__"])
def test_thread_without_a_python_frame_can_acquire(
    client: redlock.Redlock, name: str, method: str
) -> None:
    lock = client.lock(name)
    leases: list[redlock.Lease] = []
    calls = itertools.starmap(getattr(lock, method), [()])
    # Only native code runs in this thread, so that the acquire has no calling frame.
    _thread.start_new_thread(leases.extend, (calls,))
    eventually(lambda: leases)
    with pytest.raises(redlock.LockTimeout, match="acquired at an unknown line"):
        lock.acquire(wait=0)
    leases[0].release()


def test_with_statements_without_a_python_frame_end_their_own_lease(
    client: redlock.Redlock, name: str
) -> None:
    lock = client.lock(name)
    gates = [threading.Semaphore(0), threading.Semaphore(0)]
    entered: list[list[object]] = [[], []]
    for gate, results in zip(gates, entered, strict=True):
        calls = itertools.chain(
            itertools.starmap(lock.__enter__, [()]),
            itertools.starmap(gate.acquire, [()]),
            itertools.starmap(lock.__exit__, [(None, None, None)]),
        )
        _thread.start_new_thread(results.extend, (calls,))
        eventually(client.leases)
        if gate is gates[0]:
            client.leases()[0].release()
    gates[0].release()
    eventually(lambda: len(entered[0]) == 3)
    assert client.leases()[0].held
    gates[1].release()
    eventually(lambda: len(entered[1]) == 3)
    assert not client.leases()


def test_caller_of_a_decorated_function_is_named(client: redlock.Redlock, name: str) -> None:
    lock = client.lock(name)

    @lock
    def job() -> str:
        return call_site(lock)

    @lock
    async def task() -> str:
        return call_site(lock)

    @lock
    def returns_an_awaitable() -> Any:
        return itself(call_site(lock))

    async def itself(text: str) -> str:
        return text

    async def main() -> None:
        expected = line_below()
        assert await task() == expected
        expected = line_below()
        started = asyncio.create_task(task())
        assert await started == expected
        assert started.get_coro().__qualname__ == task.__qualname__  # type: ignore[union-attr]

    expected = line_below()
    assert job() == expected
    asyncio.run(main())
    expected = line_below()
    coroutine = returns_an_awaitable()
    assert asyncio.run(coroutine) == expected


def test_caller_of_an_exit_stack_is_named(client: redlock.Redlock, name: str) -> None:
    lock = client.lock(name)

    async def main() -> None:
        async with contextlib.AsyncExitStack() as stack:
            expected = line_below()
            await stack.enter_async_context(lock)
            assert call_site(lock) == expected
        async with contextlib.AsyncExitStack() as stack:
            expected = line_below()
            await stack.enter_async_context(lock.as_async())
            assert call_site(lock) == expected

    with contextlib.ExitStack() as stack:
        expected = line_below()
        stack.enter_context(lock)
        assert call_site(lock) == expected
    asyncio.run(main())


def test_file_of_the_program_that_is_called_like_contextlib_is_named(
    client: redlock.Redlock, name: str
) -> None:
    lock = client.lock(name)
    variables: dict[str, Any] = {"lock": lock, "__name__": "app.contextlib"}
    exec(compile("lease = lock.acquire()", "/srv/app/contextlib.py", "exec"), variables)
    assert call_site(lock) == "/srv/app/contextlib.py:1"
    variables["lease"].release()


def holder(client: redlock.Redlock, name: str) -> str:
    """Returns the call site of the lease that the other client of a test client holds."""
    (lease,) = client._other.leases()  # type: ignore[attr-defined]
    with pytest.raises(redlock.LockTimeout) as held, ThreadPoolExecutor() as thread:
        thread.submit(client._other.lock(name, wait=0).acquire).result()  # type: ignore[attr-defined]
    lease.release()
    found = re.search(r"acquired at (\S+:\d+)", str(held.value))
    assert found
    return found[1]


def test_caller_of_hold_is_named(name: str) -> None:
    async def main() -> None:
        async with AsyncTestRedlock() as client:
            expected = line_below()
            await client.hold(name)
            assert holder(client.as_sync(), name) == expected

    with TestRedlock() as client:
        expected = line_below()
        client.hold(name)
        assert holder(client, name) == expected
    asyncio.run(main())
