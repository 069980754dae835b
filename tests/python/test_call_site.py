"""The line of the program that acquired a lease, as messages name it."""

import asyncio
import re
import sys
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import CodeType
from typing import Any

import pytest
import redlock


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
