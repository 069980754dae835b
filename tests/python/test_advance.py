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


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_cancelled_advance_takes_no_further_step(fake: TestRedlock, backend: str) -> None:
    shared = fake.as_async()

    async def main() -> None:
        lease = await shared.lock("job", ttl=3600).acquire()
        async with anyio.create_task_group() as group:
            group.start_soon(shared.advance, 3e8)
            while fake.stats().renewed < 3:
                await anyio.sleep(0)
            group.cancel_scope.cancel()
        await shared.advance(0)
        renewed = fake.stats().renewed
        for _ in range(20):
            await shared.advance(0)
        assert (fake.stats().renewed, lease.held) == (renewed, True)
        await lease.release()

    anyio.run(main, backend=backend)


@pytest.mark.parametrize(("leases", "hours"), [(200, 1), (1, 5)])
@pytest.mark.slow("advances by hours")
def test_advance_renews_beside_waiting_acquires(leases: int, hours: int) -> None:
    async def main() -> None:
        async with AsyncTestRedlock() as fake:
            await fake.hold("job", ttl=10)
            held = [await fake.lock(f"job-{number}", ttl=3).acquire() for number in range(leases)]
            acquires = [fake.lock("job", wait=1e6).acquire() for _ in range(10)]
            waits = [asyncio.ensure_future(acquire) for acquire in acquires]
            await fake.until_waiting(10)
            await fake.advance(3600 * hours)
            assert [lease.held for lease in held] == [True] * leases
            assert not any(wait.done() for wait in waits)
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

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
