"""`leader` in Python: what follows a loss."""

import asyncio
from collections.abc import Iterator

import pytest
import redlock
from redlock.testing import TestRedlock

from tests.servers import Server


@pytest.fixture
def fake() -> Iterator[TestRedlock]:
    with TestRedlock() as client:
        yield client


def fail(lease: object) -> None:
    raise KeyError("failed")


async def endless(lease: redlock.AsyncLease, begun: asyncio.Event) -> None:
    begun.set()
    await asyncio.Event().wait()


@pytest.mark.parametrize("how", ["returns", "checks", "group"])
def test_lost_term_is_followed_by_a_campaign(fake: TestRedlock, how: str) -> None:
    terms = []
    leader = fake.leader("job")

    def schedule(lease: redlock.Lease) -> str:
        terms.append(lease)
        if len(terms) == 3:
            return "done"
        fake.lose("job")
        assert not leader.is_leading
        if how == "checks":
            lease.ensure_held()
        if how == "group":
            raise ExceptionGroup("tasks", [lost_error(lease)])
        return "dropped"

    assert leader.run(schedule) == "done"
    assert len(terms) == 3


def lost_error(lease: redlock.Lease) -> redlock.LockError:
    with pytest.raises(redlock.LockLost) as caught:
        lease.ensure_held()
    return caught.value


def test_error_after_a_loss_is_not_hidden(fake: TestRedlock) -> None:
    def schedule(lease: redlock.Lease) -> None:
        fake.lose("job")
        fail(lease)

    def mixed(lease: redlock.Lease) -> None:
        fake.lose("job")
        raise ExceptionGroup("tasks", [lost_error(lease), KeyError("failed")])

    leader = fake.leader("job")
    with pytest.raises(KeyError):
        leader.run(schedule)
    with pytest.raises(ExceptionGroup):
        leader.run(mixed)
    assert leader.run(lambda lease: lease.held)


def test_loss_of_another_lock_is_an_error_of_the_function(fake: TestRedlock) -> None:
    def schedule(lease: redlock.Lease) -> None:
        with fake.lock("other"):
            fake.lose("other")

    with pytest.raises(redlock.LockLost, match="lock:other"):
        fake.leader("job").run(schedule)


def test_loss_of_an_equal_key_or_of_an_earlier_term_is_an_error(fake: TestRedlock) -> None:
    terms: list[redlock.Lease] = []

    def elsewhere(lease: redlock.Lease) -> None:
        terms.append(lease)
        assert len(terms) == 1
        with TestRedlock() as other, other.lock("job") as inner:
            other.lose("job")
            inner.ensure_held()

    def earlier(lease: redlock.Lease) -> None:
        terms.append(lease)
        assert len(terms) < 3
        if len(terms) == 1:
            fake.lose("job")
        terms[0].ensure_held()

    with pytest.raises(redlock.LockLost, match="lock:job"):
        fake.leader("job").run(elsewhere)
    terms.clear()
    with pytest.raises(redlock.LockLost):
        fake.leader("job").run(earlier)
    assert len(terms) == 2


def test_use_of_a_released_lease_is_an_error(fake: TestRedlock) -> None:
    terms = []

    def schedule(lease: redlock.Lease) -> None:
        terms.append(lease)
        assert len(terms) == 1
        lease.release()
        lease.ensure_held()

    async def aschedule(lease: redlock.AsyncLease) -> None:
        schedule(lease.as_sync())

    with pytest.raises(redlock.LockReleased):
        fake.leader("job").run(schedule)
    terms.clear()
    with pytest.raises(redlock.LockReleased):
        asyncio.run(fake.as_async().leader("job").run(aschedule))


def test_loss_that_only_the_release_notices_is_followed_by_a_campaign(
    redis_server: Server, name: str
) -> None:
    terms = 0

    def schedule(lease: redlock.Lease) -> int:
        nonlocal terms
        terms += 1
        if terms == 1:
            redis_server.client.delete(f"lock:{name}")
        return terms

    with redlock.Redlock(redis_server.url) as client:
        assert client.leader(name).run(schedule) == 2


def test_loss_cancels_the_coroutine_before_the_next_campaign(fake: TestRedlock) -> None:
    async def main() -> None:
        bodies, terms = 0, 0
        begun = asyncio.Event()
        leader = fake.as_async().leader("job")

        async def schedule(lease: redlock.AsyncLease) -> str:
            nonlocal bodies, terms
            bodies, terms = bodies + 1, terms + 1
            assert bodies == 1
            begun.set()
            try:
                if terms == 3:
                    return "done"
                await asyncio.Event().wait()
            finally:
                # Campaigns wait until the end of this block.
                for _ in range(10):
                    await asyncio.sleep(0)
                assert await leader.current() is None or terms == 3
                bodies -= 1
            raise AssertionError

        task = asyncio.ensure_future(leader.run(schedule))
        for _ in range(2):
            await begun.wait()
            begun.clear()
            assert leader.is_leading
            await fake.as_async().lose("job")
        assert await task == "done"
        assert (task.cancelling(), terms) == (0, 3)

    asyncio.run(main())


def test_cancellation_during_a_loss_ends_the_run(fake: TestRedlock) -> None:
    async def main() -> None:
        begun = asyncio.Event()
        task = asyncio.ensure_future(fake.as_async().leader("job").run(endless, begun))
        await begun.wait()
        losing = asyncio.ensure_future(fake.as_async().lose("job"))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await losing

    asyncio.run(main())


@pytest.mark.parametrize("how", ["checks", "group"])
def test_cancellation_that_a_loss_replaced_ends_the_run(fake: TestRedlock, how: str) -> None:
    async def main() -> None:
        begun = asyncio.Event()
        terms = 0

        async def schedule(lease: redlock.AsyncLease) -> None:
            nonlocal terms
            terms += 1
            assert terms == 1
            if how == "checks":
                await step(lease)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(step(lease))

        async def step(lease: redlock.AsyncLease) -> None:
            try:
                begun.set()
                await asyncio.Event().wait()
            finally:
                lease.ensure_held()

        task = asyncio.ensure_future(fake.as_async().leader("job").run(schedule))
        await begun.wait()
        await fake.as_async().lose("job")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
