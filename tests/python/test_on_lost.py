"""The notification of a loss: in which context, as a task, and until when."""

import asyncio
import contextvars
import functools
import gc
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import redlock

from tests.waiting import aeventually

LIMIT = 20
REGISTRAR: contextvars.ContextVar[str] = contextvars.ContextVar("REGISTRAR", default="unset")


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(main(), LIMIT))


def test_callback_runs_in_the_context_that_registered_it(
    client: redlock.Redlock, name: str
) -> None:
    notified: list[str] = []
    event = threading.Event()
    lease = client.lock(name).acquire()

    def register(who: str) -> None:
        REGISTRAR.set(who)
        lease.on_lost(lambda _: notified.append(REGISTRAR.get()))

    for who in ("first", "second"):
        contextvars.copy_context().run(register, who)
    lease.on_lost(lambda _: event.set())
    client.force_release(name)
    assert event.wait(LIMIT)
    assert sorted(notified) == ["first", "second"]


def test_callback_on_a_loop_runs_in_the_context_that_registered_it(
    client: redlock.Redlock, name: str
) -> None:
    async def main() -> None:
        notified: list[tuple[str, str]] = []
        all_notified = asyncio.Event()

        def tell(kind: str) -> None:
            notified.append((kind, REGISTRAR.get()))
            if len(notified) == 3:
                all_notified.set()

        async def coroutine(error: redlock.LockLost) -> None:
            await asyncio.sleep(0)
            tell(f"task {error.reason}")

        async def register(lease: redlock.Lease) -> None:
            REGISTRAR.set("registrar")
            lease.on_lost(lambda error: tell(f"plain {error.reason}"))
            lease.on_lost(coroutine)
            lease.on_lost(lambda error: coroutine(error))

        lease = await client.lock(name).as_async().acquire()
        await asyncio.create_task(register(lease))
        await client.as_async().force_release(name)
        await all_notified.wait()
        assert sorted(notified) == [
            ("plain missing", "registrar"),
            ("task missing", "registrar"),
            ("task missing", "registrar"),
        ]
        assert REGISTRAR.get() == "unset"

    run(main)


def test_task_of_a_callback_is_kept_alive_and_its_error_reported(
    client: redlock.Redlock, name: str
) -> None:
    async def main() -> None:
        reported: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, what: reported.append(what))
        going, done, collected = asyncio.Event(), asyncio.Event(), threading.Event()

        async def fails(error: redlock.LockLost) -> None:
            going.set()
            # Only the caller of the loop has a reference to this wait.
            await asyncio.get_running_loop().run_in_executor(None, collected.wait)
            done.set()
            raise ZeroDivisionError

        lease = await client.lock(name).as_async().acquire()
        lease.on_lost(fails)
        lease.on_lost(lambda _: 1 / 0)
        await client.as_async().force_release(name)
        await going.wait()
        gc.collect()
        collected.set()
        await done.wait()
        await asyncio.sleep(0)
        gc.collect()
        assert [type(what["exception"]) for what in reported] == [ZeroDivisionError] * 2

    run(main)


class Called:
    async def __call__(self, error: redlock.LockLost) -> None:
        pass


async def coroutine(error: redlock.LockLost) -> None:
    pass


@pytest.mark.parametrize(
    "callback",
    [coroutine, Called(), functools.partial(coroutine), Called().__call__],
    ids=["function", "callable object", "partial", "bound method"],
)
def test_without_a_loop_a_coroutine_function_is_refused(
    client: redlock.Redlock, name: str, callback: Callable[[redlock.LockLost], object]
) -> None:
    with (
        client.lock(name).acquire() as lease,
        pytest.raises(redlock.InvalidOption, match="coroutine function, and no event loop"),
    ):
        lease.on_lost(callback)


@pytest.mark.parametrize("way", ["sync", "async"])
def test_returned_function_unregisters_the_callback(
    client: redlock.Redlock, name: str, way: str
) -> None:
    notified: list[str] = []
    event = threading.Event()

    def watched(lease: redlock.Lease) -> Callable[[], None]:
        forget = lease.on_lost(lambda _: notified.append("forgotten"))
        lease.on_lost(lambda _: notified.append("kept"))
        forget()
        forget()
        lease.on_lost(lambda _: event.set())
        return forget

    async def main() -> None:
        lease = await client.lock(name).as_async().acquire()
        forget = watched(lease)
        await client.as_async().force_release(name)
        await aeventually(event.is_set)
        forget()

    if way == "async":
        run(main)
    else:
        lease = client.lock(name).acquire()
        forget = watched(lease)
        client.force_release(name)
        assert event.wait(LIMIT)
        forget()
        del lease
        forget()
    assert notified == ["kept"]


def test_callback_can_unregister_the_next_one(client: redlock.Redlock, name: str) -> None:
    """Includes a callback that the loop has already scheduled."""

    async def main() -> None:
        notified: list[int] = []
        forgets: list[Callable[[], None]] = []
        last = asyncio.Event()
        lease = await client.lock(name).as_async().acquire()

        def tell(number: int) -> None:
            notified.append(number)
            forgets[1 - number]()

        for number in (0, 1):
            forgets.append(lease.on_lost(lambda _, number=number: tell(number)))  # type: ignore[misc]
        lease.on_lost(lambda _: last.set())
        await client.as_async().force_release(name)
        await last.wait()
        assert notified in ([0], [1])

    run(main)


def test_returned_function_keeps_neither_lease_nor_callback_alive(
    client: redlock.Redlock, name: str
) -> None:
    def registers() -> Callable[[], None]:
        lease = client.lock(name).acquire()
        return lease.on_lost(lambda _: print(lease))

    with pytest.warns(ResourceWarning, match=name):
        forget = registers()
        gc.collect()
    forget()


def test_a_context_that_holds_the_lease_is_collected_with_it(
    client: redlock.Redlock, name: str
) -> None:
    held: contextvars.ContextVar[redlock.Lease] = contextvars.ContextVar("held")

    def forgets() -> None:
        lease = client.lock(name).acquire()
        held.set(lease)
        lease.on_lost(print)

    with pytest.warns(ResourceWarning, match=name):
        contextvars.copy_context().run(forgets)
        gc.collect()


@pytest.mark.parametrize("unregisters", [True, False])
def test_lease_keeps_no_descriptor_and_no_callback_of_closed_loops(
    client: redlock.Redlock, name: str, unregisters: bool
) -> None:
    lease = client.lock(name).acquire()
    callbacks: list[weakref.ref[Any]] = []

    async def main() -> None:
        def callback(_: redlock.LockLost) -> None: ...

        callbacks.append(weakref.ref(callback))
        forget = lease.on_lost(callback)
        if unregisters:
            forget()

    def open_files() -> int:
        return len(os.listdir("/proc/self/fd"))

    asyncio.run(main())
    before = open_files()
    for _ in range(50):
        asyncio.run(main())
    gc.collect()
    after = open_files()
    assert after <= before + 5, after - before
    assert sum(callback() is not None for callback in callbacks) <= 1
    lease.release()


def test_callbacks_run_before_the_loss_ends_the_loop(client: redlock.Redlock, name: str) -> None:
    """The cancellation of the body also reports the loss, and may be the last step of the loop."""
    notified: list[str] = []

    async def body(key: str) -> None:
        async with client.lock(key) as lease:
            lease.on_lost(lambda error: notified.append(error.reason))
            threading.Thread(target=client.force_release, args=(key,)).start()
            while True:
                await asyncio.sleep(0)

    # When both were separate, a quarter of these losses was not reported.
    for number in range(40):
        with pytest.raises(redlock.LockLost):
            asyncio.run(asyncio.wait_for(body(f"{name}-{number}"), LIMIT))
        assert notified == ["missing"] * (number + 1)


@pytest.mark.parametrize("loads", [[], ["inspect"]])
def test_coroutine_functions_are_found_with_and_without_inspect(loads: list[str]) -> None:
    """A fork while another thread imports a module leaves the module locked in the child."""
    program = Path(__file__).with_name("programs") / "coroutine_functions.py"
    command = [sys.executable, "-W", "error", program, *loads]
    process = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert process.returncode == 0, process.stderr
