"""`leader` in Python: every way to lead, and mistakes. `conformance/test_leader.py` has the guarantees."""

import asyncio
import contextlib
import os
import pickle
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
import redlock
import trio
from redlock.testing import TestRedlock

from tests.servers import Server
from tests.waiting import aeventually, eventually


@pytest.fixture
def fake() -> Iterator[TestRedlock]:
    with TestRedlock() as client:
        yield client


def fail(lease: object) -> None:
    raise KeyError("failed")


def leads(lease: redlock.Lease) -> bool:
    return lease.held


async def aleads(lease: redlock.AsyncLease, value: int = 7) -> int:
    assert lease.held
    await asyncio.sleep(0)
    return value


def test_run_passes_arguments_and_returns_the_value(fake: TestRedlock) -> None:
    def schedule(lease: redlock.Lease, job: str, *, factor: int) -> tuple[bool, str, int]:
        return lease.held, job, factor

    leader = fake.leader("job")
    assert leader.run(schedule, "report", factor=2) == (True, "report", 2)
    assert leader.key == "lock:job"
    assert repr(leader) == "<redlock.Leader job>"


def test_cancelled_run_resigns(redis_server: Server, name: str) -> None:
    with redlock.Redlock(redis_server.url) as client:

        async def main() -> None:
            leader = client.as_async().leader(name)
            begun = asyncio.Event()
            task = asyncio.ensure_future(leader.run(endless, begun))
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert redis_server.client.exists(f"lock:{name}") == 0
            async with leader:
                campaign = asyncio.ensure_future(leader.run(aleads))
                while not client.stats().waiting:
                    await asyncio.sleep(0)
                campaign.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await campaign
                # The background thread ends it.
                await aeventually(lambda: client.stats().waiting == 0)
            assert redis_server.client.exists(f"lock:{name}") == 0

        with warnings.catch_warnings():
            # The task waits for its own lease.
            warnings.simplefilter("ignore", RuntimeWarning)
            asyncio.run(main())


async def endless(lease: redlock.AsyncLease, begun: asyncio.Event) -> None:
    begun.set()
    await asyncio.Event().wait()


def test_function_that_releases_its_lease_has_resigned(fake: TestRedlock) -> None:
    def schedule(lease: redlock.Lease) -> str:
        lease.release()
        with fake.lock("job", wait=0):
            return "resigned"

    assert fake.leader("job").run(schedule) == "resigned"


def test_block_leads_for_one_term(fake: TestRedlock) -> None:
    leader = fake.leader("job")
    with leader as lease:
        assert lease.held
        assert leader.is_leading
    assert not leader.is_leading
    with ExitStack() as stack:
        assert stack.enter_context(leader).held
    assert not leader.is_leading
    with pytest.raises(redlock.LockLost), leader:
        fake.lose("job")
    with pytest.raises(KeyError), leader as lease:
        fail(lease)
    assert leader.current() is None


def test_interrupted_campaign_leaves_the_queue(fake: TestRedlock) -> None:
    import signal

    with fake.hold("job"):
        timer = threading.Thread(target=interrupt_waiting, args=(fake,))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            fake.leader("job").run(leads)
        timer.join()
        assert fake.stats().waiting == 0
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def interrupt_waiting(client: redlock.Redlock) -> None:
    import signal

    eventually(lambda: client.stats().waiting == 1)
    os.kill(os.getpid(), signal.SIGINT)


def test_async_block_is_cancelled_by_a_loss(fake: TestRedlock) -> None:
    async def main() -> None:
        leader = fake.as_async().leader("job", label="web-3")
        async with leader as lease:
            assert lease.held
            assert leader.is_leading
            assert await leader.current() == "web-3"
        assert await leader.current() is None
        with pytest.raises(redlock.LockLost):
            async with leader:
                await fake.as_async().lose("job")
                await asyncio.Event().wait()
        async with contextlib.AsyncExitStack() as stack:
            assert (await stack.enter_async_context(leader)).held

    asyncio.run(main())


def test_trio(fake: TestRedlock) -> None:
    async def main() -> None:
        leader = fake.as_async().leader("job")
        terms = 0

        async def schedule(lease: redlock.AsyncLease) -> int:
            nonlocal terms
            terms += 1
            if terms == 1:
                await fake.as_async().lose("job")
                await trio.sleep_forever()
            return terms

        assert await leader.run(schedule) == 2
        with trio.CancelScope() as scope:
            async with leader:
                scope.cancel()
                await trio.sleep_forever()
        assert scope.cancelled_caught
        assert not leader.is_leading

    trio.run(main)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_child_does_not_campaign(fake: TestRedlock) -> None:
    with ThreadPoolExecutor() as threads:
        status = threads.submit(fake.leader("job").run, fork).result()
    assert os.waitstatus_to_exitcode(status) == 7


def fork(lease: redlock.Lease) -> int:
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    try:
        with pytest.raises(redlock.LockLost) as caught:
            lease.ensure_held()
        from redlock._leader import _lost

        assert not _lost(lease, True, caught.value)
        os._exit(7)
    finally:
        os._exit(1)


def test_module_function_uses_the_default_client() -> None:
    redlock.configure("memory://leader-default", replace=True)
    assert redlock.leader("job").run(leads)

    async def main() -> None:
        assert await redlock.leader("job").as_async().run(aleads, value=8) == 8

    asyncio.run(main())


def test_blocking_run_in_a_loop_warns(fake: TestRedlock) -> None:
    async def main() -> None:
        with pytest.warns(RuntimeWarning, match=r"await leader\.as_async\(\)\.run"):
            fake.leader("job").run(leads)

    asyncio.run(main())


def test_pickles() -> None:
    client = redlock.Redlock("memory://leader-pickle")
    leader = client.leader("job", label="web-3")
    with leader:
        again: redlock.Leader = pickle.loads(pickle.dumps(leader))
        assert again.current() == "web-3"
    awaited = pickle.loads(pickle.dumps(leader.as_async()))
    assert isinstance(awaited, redlock.AsyncLeader)
    assert isinstance(awaited.as_sync(), redlock.Leader)


def test_mistakes_are_explained(fake: TestRedlock) -> None:
    leader = fake.leader("job")
    values: list[tuple[dict[str, Any], str]] = [
        ({"label": False}, "label of a leader must not be off"),
        ({"wait": 5}, "leader\\(\\) has no option 'wait'"),
        ({"renew": False}, "leader\\(\\) has no option 'renew'"),
        ({"min_hold": 5}, "leader\\(\\) has no option 'min_hold'"),
        ({"leads": True}, "leader\\(\\) has no option 'leads'"),
    ]
    for options, text in values:
        with pytest.raises(redlock.InvalidOption, match=text):
            fake.leader("job", **options)
    with pytest.raises(TypeError, match="not a function"):
        leader.run(7)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="as_async"):
        leader.run(aleads)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="awaitable"):
        leader.run(lambda lease: aleads(lease))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="constructor"):
        redlock.Leader()

    async def main() -> None:
        with pytest.raises(TypeError, match="not an 'async def'"):
            await leader.as_async().run(leads)  # type: ignore[arg-type]

    asyncio.run(main())
    # A client without labels still names its leader.
    with TestRedlock(label=False) as unnamed, unnamed.leader("job"):
        assert unnamed.leader("job").current()
