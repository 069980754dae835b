"""`advance` of the test clients steps through renewals, `max_hold`, losses and the ends of waits."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import timedelta
from typing import Any

import anyio
import pytest
import redlock
from redlock.testing import AsyncTestRedlock, TestRedlock


@pytest.fixture
def fake() -> Iterator[TestRedlock]:
    with TestRedlock() as client:
        yield client


def test_advance_renews_on_the_way(fake: TestRedlock) -> None:
    renewed = fake.lock("renewed", ttl=10).acquire()
    left = fake.lock("left", ttl=10, renew=False).acquire()
    fake.advance(9)
    assert (renewed.held, left.held) == (True, True)
    fake.advance(timedelta(seconds=1))
    assert (renewed.held, left.held) == (True, False)
    fake.advance(3600)
    assert renewed.held
    assert fake.stats().lost["expired"] == 1
    assert fake.stats().renewed > 300
    renewed.release()


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_async_advance_runs_the_waits_of_its_loop(fake: TestRedlock, backend: str) -> None:
    shared = fake.as_async()
    outcomes: list[str] = []

    async def wait() -> None:
        try:
            await shared.lock("job", wait=50).acquire()
        except redlock.LockTimeout as error:
            outcomes.append(error.code)

    async def main() -> None:
        theirs = await shared.hold("job", ttl=10)
        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            await shared.until_waiting()
            await shared.advance(49)
            assert outcomes == []
            await shared.advance(2)
        assert outcomes == ["timeout"]
        assert theirs.held

    anyio.run(main, backend=backend)


def test_blocking_advance_in_a_loop_ends(fake: TestRedlock) -> None:
    """It blocks the loop, whose waits then cannot run."""

    async def main() -> None:
        await fake.as_async().hold("job", ttl=10)
        waits = asyncio.create_task(fake.as_async().lock("job", wait=50).acquire())
        await fake.as_async().until_waiting()
        fake.advance(60)
        with pytest.raises(redlock.LockTimeout):
            await waits

    asyncio.run(main())


@pytest.mark.parametrize("wrong", [-1, "10", None, float("nan")])
def test_invalid_advance_is_refused(fake: TestRedlock, wrong: Any) -> None:
    lease = fake.lock("job").acquire()
    with pytest.raises(redlock.InvalidOption, match=r"seconds (is|must be) "):
        fake.advance(wrong)
    assert lease.held
    lease.release()


def test_until_waiting_and_until_held(fake: TestRedlock) -> None:
    fails: list[tuple[Callable[[], object], str]] = [
        (lambda: fake.until_waiting(2, timeout=0), "0 acquires are under way, fewer than 2"),
        (lambda: fake.until_held("job", timeout=timedelta(0)), "lock:job: not held"),
    ]
    for call, text in fails:
        with pytest.raises(TimeoutError, match=text):
            call()
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(fake.lock("job").acquire)
        fake.until_held("job")
        waiters = [pool.submit(fake.lock("job").acquire) for _ in range(2)]
        fake.until_waiting(2)
        assert fake.stats().waiting == 2
        for each in as_completed([first, *waiters], timeout=20):
            each.result().release()


def test_async_until_waiting_and_until_held() -> None:
    async def main() -> None:
        async with AsyncTestRedlock() as fake:
            for call in (fake.until_waiting(1, timeout=0), fake.until_held("job", timeout=0)):
                with pytest.raises(TimeoutError):
                    await call
            theirs = await fake.hold("job")
            await fake.until_held(fake.lock("job"))
            waits = asyncio.create_task(fake.lock("job").acquire())
            await fake.until_waiting()
            await theirs.release()
            assert (await waits).held

    asyncio.run(main())
