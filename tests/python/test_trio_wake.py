"""A trio run reads its results itself: no callback, log handler or end of the interpreter delays them."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import redlock
import trio
import trio.testing

from tests.servers import Server
from tests.waiting import aeventually

from .processes import run

ENDS_A_RUN = Path(__file__).with_name("programs") / "ends_a_run.py"


def test_callback_of_a_thread_can_use_a_lock_in_the_run(client: redlock.Redlock, name: str) -> None:
    used: list[bool] = []

    async def use() -> bool:
        async with client.lock(f"{name}-other") as lease:
            return lease.held

    async def main() -> None:
        token = trio.lowlevel.current_trio_token()
        lease = (await client.lock(name).as_async().acquire()).as_sync()

        def register() -> None:
            # No event loop runs in this thread, so the callback runs in the thread of the dispatcher.
            lease.on_lost(lambda _: used.append(trio.from_thread.run(use, trio_token=token)))

        await trio.to_thread.run_sync(register)
        await client.as_async().force_release(name)
        with trio.fail_after(20):
            await aeventually(lambda: used, sleep=trio.sleep)

    trio.run(main)
    assert used == [True]


def test_blocked_callback_delays_neither_results_nor_losses(
    client: redlock.Redlock, name: str
) -> None:
    async def main() -> None:
        lease = (await client.lock(name).as_async().acquire()).as_sync()
        blocked, ends = trio.Event(), trio.Event()
        token = trio.lowlevel.current_trio_token()

        async def block() -> None:
            blocked.set()
            await ends.wait()

        def callback(_: object) -> None:
            trio.from_thread.run(block, trio_token=token)
            returned.append(True)

        def register() -> None:
            lease.on_lost(callback)

        await trio.to_thread.run_sync(register)
        await client.as_async().force_release(name)
        with trio.fail_after(20):
            await blocked.wait()
            with pytest.raises(redlock.LockLost):
                async with client.lock(name):
                    await client.as_async().force_release(name)
                    await trio.sleep_forever()
            ends.set()
            await aeventually(lambda: returned, sleep=trio.sleep)

    returned: list[bool] = []
    trio.run(main)


def test_shielded_call_at_the_end_of_a_run_gets_its_result(
    redis_client: redlock.Redlock, name: str
) -> None:
    """The run has already cancelled its system tasks, and then the async generators."""
    ended: list[str] = []

    async def release(what: str) -> None:
        with trio.CancelScope(shield=True):
            async with redis_client.lock(f"{name}-{what}", ttl=20) as lease:
                await lease.extend()
        ended.append(what)

    async def task() -> None:
        try:
            await trio.sleep_forever()
        finally:
            await release("task")

    async def generator() -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            await release("generator")

    async def main(uses_before: bool) -> None:
        trio.lowlevel.spawn_system_task(task)
        await anext(kept)
        if uses_before:
            await release("main")
        await trio.testing.wait_all_tasks_blocked()

    for uses_before in (True, False):
        kept = generator()
        trio.run(main, uses_before)
    assert ended == ["main", "task", "generator", "task", "generator"]


EXIT = """
import atexit, sys, trio
atexit.register(lambda: print(trio.run(client.as_async().shutdown), flush=True))
import redlock
client = redlock.Redlock(sys.argv[1])
kept = client.lock(sys.argv[2], ttl=20).acquire()
"""


def test_run_in_an_atexit_handler_gets_its_results(redis_server: Server, name: str) -> None:
    """The handler was registered before the client was created, so it runs after those of the package."""
    process = run(EXIT, redis_server.url, name)
    out, err = process.communicate(timeout=20)
    assert (out, err, process.returncode) == ("1\n", "", 0)
    assert not redis_server.client.exists(f"lock:{name}")


def test_run_that_an_atexit_handler_ends_releases_its_lock(redis_server: Server, name: str) -> None:
    process = run(ENDS_A_RUN.read_text(), redis_server.url, name)
    out, err = process.communicate(timeout=20)
    assert (out, err, process.returncode) == ("ended\n", "", 0)
    assert not redis_server.client.exists(f"lock:{name}")
