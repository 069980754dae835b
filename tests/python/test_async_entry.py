"""An `async with` that fails between the grant and its body, or whose coroutine is closed, leaves no key."""

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import redlock
import trio
from redlock import _body, _trio

from tests.servers import Server
from tests.waiting import eventually

from .processes import run

Main = Callable[[], Awaitable[Any]]


def raises(_: object, *args: object) -> None:
    raise KeyError("entry")


@pytest.mark.parametrize("step", ["enter", "lost"])
@pytest.mark.parametrize("entered", ["lock", "async lock", "lease"])
@pytest.mark.parametrize("library", [asyncio, trio], ids=["asyncio", "trio"])
def test_failure_between_the_grant_and_the_body_leaves_no_key(
    client: redlock.Redlock,
    name: str,
    library: Any,
    entered: str,
    step: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lock = client.lock(name, ttl=300)

    async def enter() -> object:
        if entered == "lock":
            return lock
        return lock.as_async() if entered == "async lock" else await lock.as_async().acquire()

    async def main() -> None:
        opened: Any = await enter()
        with monkeypatch.context() as patch, pytest.raises(KeyError, match="entry"):
            for body in (_body.Body, _trio.Body):
                patch.setattr(body, step, raises if step == "enter" else property(raises))
            async with opened:
                raise AssertionError("entered")
        async with client.lock(name, wait=20) as lease:
            assert lease.held
        # Neither a pending cancellation nor an open scope is left.
        await library.sleep(0)

    (library.run if library is trio else lambda main: asyncio.run(main()))(main)
    assert not lock.inspect().held


@pytest.mark.parametrize("library", [asyncio, trio], ids=["asyncio", "trio"])
def test_entry_that_failed_is_forgotten(
    client: redlock.Redlock, name: str, library: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = client.lock(name, ttl=300, wait=20)

    async def main() -> None:
        with monkeypatch.context() as patch, pytest.raises(KeyError, match="entry"):
            for body in (_body.Body, _trio.Body):
                patch.setattr(body, "enter", raises)
            async with lock:
                raise AssertionError("entered")
        async with lock as first:
            pass
        assert not first.held
        with pytest.raises(RuntimeError):
            await lock.__aexit__(None, None, None)

    (library.run if library is trio else lambda main: asyncio.run(main()))(main)


TEARDOWN = Path(__file__).with_name("programs") / "closed_coroutine.py"


def test_coroutine_that_the_interpreter_closes_leaves_no_key(
    redis_server: Server, name: str
) -> None:
    process = run(TEARDOWN.read_text(), redis_server.url, name)
    out, err = process.communicate(timeout=30)
    assert (out, process.returncode) == ("True\n", 0), err
    assert "ImportError" not in err
    eventually(lambda: not redis_server.client.exists(f"lock:{name}"))


def test_interrupt_at_the_start_of_any_function_leaves_no_key() -> None:
    program = Path(__file__).with_name("programs") / "interrupted_entry.py"
    done = subprocess.run(
        [sys.executable, program], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.stdout == "[] True\n", done.stderr
