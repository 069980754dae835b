"""What a body did, and what cancelled it: docs/cancellation.md has the table. Losing a lock is one such cause."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import redlock

Body = Callable[[], Awaitable[None]]
Cause = Callable[["Holder"], Awaitable[None]]


class Holder:
    """A task that holds a lock around a body, inside of an asyncio.timeout without an end."""

    def __init__(self, client: redlock.Redlock, name: str, body: Body, entry: str) -> None:
        self.client, self.name, self.body, self.entry = client, name, body, entry
        self.inside = asyncio.Event()
        self.lease: Any = None
        self.timeout = asyncio.timeout(None)
        self.cancelling = -1
        self.task = asyncio.create_task(self.run())

    async def run(self) -> None:
        lock = self.client.lock(self.name)
        try:
            async with (
                self.timeout,
                lock if self.entry == "lock" else await lock.aacquire() as lease,
            ):
                self.lease = lease
                self.inside.set()
                await self.body()
        finally:
            self.cancelling = asyncio.current_task().cancelling()  # type: ignore[union-attr]

    def lose(self) -> None:
        """The lease is over; the loop does not know yet."""
        self.client.force_release(self.name)
        end = time.monotonic() + 5
        while self.lease.held and time.monotonic() < end:
            time.sleep(0.001)
        assert not self.lease.held

    async def asked(self) -> None:
        """Until the body has been asked to cancel itself; it has not run since."""
        end = time.monotonic() + 5
        while self.task.cancelling() == 0 and time.monotonic() < end:
            await asyncio.sleep(0)
        assert self.task.cancelling() == 1


async def waits() -> None:
    await asyncio.sleep(20)


async def cleans_up() -> None:
    try:
        await asyncio.sleep(20)
    finally:
        await asyncio.sleep(0.02)


async def swallows() -> None:
    """Every one: the second may still be on its way."""
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(20)
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(0.01)


async def raises() -> None:
    try:
        await asyncio.sleep(20)
    except asyncio.CancelledError:
        raise KeyError(1) from None


async def outer(holder: Holder) -> None:
    holder.task.cancel()


async def timeout(holder: Holder) -> None:
    holder.timeout.reschedule(asyncio.get_running_loop().time())


async def loss(holder: Holder) -> None:
    holder.lose()


async def loss_then_outer(holder: Holder) -> None:
    holder.lose()
    await holder.asked()
    holder.task.cancel()


async def outer_then_loss(holder: Holder) -> None:
    holder.lose()
    holder.task.cancel()  # the task runs before the word of the loss does


async def loss_then_timeout(holder: Holder) -> None:
    holder.lose()
    await holder.asked()
    holder.timeout.reschedule(asyncio.get_running_loop().time())


CANCELLED, LOST = asyncio.CancelledError, redlock.LockLost

#: What comes out, by what cancelled (rows) and what the body did (columns).
BODIES = [waits, cleans_up, swallows, raises]
OUTCOMES: list[tuple[Cause, list[type[BaseException] | None]]] = [
    (outer, [CANCELLED, CANCELLED, None, KeyError]),
    (timeout, [TimeoutError, TimeoutError, None, KeyError]),
    (loss, [LOST, LOST, LOST, KeyError]),
    (loss_then_outer, [CANCELLED, CANCELLED, LOST, KeyError]),
    (outer_then_loss, [CANCELLED, CANCELLED, LOST, KeyError]),
    # The last body is in its exit by the time of the timeout, whose CancelledError then replaces the KeyError.
    (loss_then_timeout, [TimeoutError, TimeoutError, LOST, TimeoutError]),
]
CASES = [
    pytest.param(cause, body, outcome, id=f"{cause.__name__}-{body.__name__}")
    for cause, outcomes in OUTCOMES
    for body, outcome in zip(BODIES, outcomes, strict=True)
]


@pytest.mark.parametrize("entry", ["lock", "lease"])
@pytest.mark.parametrize(("cause", "body", "outcome"), CASES)
def test_what_comes_out(
    cause: Cause, body: Body, outcome: type[BaseException] | None, entry: str, name: str
) -> None:
    async def main() -> None:
        with redlock.Redlock("memory://") as client:
            holder = Holder(client, name, body, entry)
            await holder.inside.wait()
            await cause(holder)
            (result,) = await asyncio.gather(holder.task, return_exceptions=True)
            assert result is None if outcome is None else type(result) is outcome
            assert not (await client.lock(name).ainspect()).held
        lost = cause not in (outer, timeout)
        if outcome is LOST:
            assert result.reason == "missing"
        if outcome is KeyError:
            notes = getattr(result, "__notes__", [])
            assert any(f"lock:{name}" in note for note in notes) == lost
        # Ours is taken back, whatever happened; nobody else's is.
        assert holder.cancelling == (cause in (outer, loss_then_outer, outer_then_loss))

    asyncio.run(main())


# A TaskGroup with a failure leaves a count on its task up to Python 3.12: no `ends` there.
def ends(main: Callable[[], Awaitable[None]]) -> None:
    """Runs it, and finds nothing left to be delivered to its task."""

    async def whole() -> None:
        await main()
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        await asyncio.sleep(0.01)

    asyncio.run(whole())


def test_a_loss_is_raised_from_the_cancellation(client: redlock.Redlock, name: str) -> None:
    async def main() -> None:
        with pytest.raises(redlock.LockLost) as caught:
            async with client.lock(name):
                await client.aforce_release(name)
                await asyncio.sleep(20)
        assert isinstance(caught.value.__cause__, asyncio.CancelledError)

    ends(main)


def test_a_body_that_ends_before_it_hears_of_the_loss(client: redlock.Redlock, name: str) -> None:
    """It never awaits again: what was asked for must not hit whatever its task does next."""

    async def main() -> None:
        with pytest.raises(redlock.LockLost, match="gone"):
            async with client.lock(name) as lease:
                client.force_release(name)
                while lease.held:
                    time.sleep(0.001)

    ends(main)


def test_a_body_that_blocks_the_loop_until_its_lease_expires(
    client: redlock.Redlock, name: str
) -> None:
    async def main() -> None:
        with pytest.raises(redlock.LockLost) as caught:
            async with client.lock(name, ttl=0.1, renew=False):
                time.sleep(0.2)
        assert caught.value.reason == "expired"

    ends(main)


def test_a_loss_in_a_task_that_is_being_cancelled_already(
    client: redlock.Redlock, name: str
) -> None:
    """Clean-up of a cancelled task may hold a lock too: the count at its entry is what ours is told by."""

    async def body() -> None:
        try:
            await asyncio.sleep(20)
        except asyncio.CancelledError:
            with pytest.raises(redlock.LockLost):
                async with client.lock(name):
                    await client.aforce_release(name)
                    await asyncio.sleep(20)
            task = asyncio.current_task()
            assert task is not None
            assert task.cancelling() == 1
            raise

    async def main() -> None:
        task = asyncio.create_task(body())
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()

    ends(main)


def test_a_timeout_inside_the_body_is_the_bodys_own(client: redlock.Redlock, name: str) -> None:
    async def main() -> None:
        async with client.lock(name) as lease:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await asyncio.sleep(20)
            assert lease.held
        with pytest.raises(redlock.LockLost):
            async with client.lock(name), asyncio.timeout(20):
                await client.aforce_release(name)
                await asyncio.sleep(20)

    ends(main)


def test_a_shielded_call_goes_on(client: redlock.Redlock, name: str) -> None:
    async def main() -> None:
        call = asyncio.create_task(asyncio.sleep(0.05, "done"))
        with pytest.raises(redlock.LockLost):
            async with client.lock(name):
                await client.aforce_release(name)
                await asyncio.shield(call)
                await asyncio.sleep(20)
        assert await call == "done"

    ends(main)


def test_loss_cancels_a_task_group_inside_the_body(client: redlock.Redlock, name: str) -> None:
    async def main() -> None:
        with pytest.raises(redlock.LockLost):
            async with client.lock(name), asyncio.TaskGroup() as group:
                child = group.create_task(asyncio.sleep(20))
                await client.aforce_release(name)
        assert child.cancelled()

    ends(main)


def test_loss_inside_a_task_group(client: redlock.Redlock, name: str) -> None:
    async def holder() -> None:
        async with client.lock(name):
            await asyncio.sleep(20)

    async def main() -> None:
        with pytest.raises(ExceptionGroup) as caught:
            async with asyncio.TaskGroup() as group:
                group.create_task(holder())
                bystander = group.create_task(asyncio.sleep(20))
                await asyncio.sleep(0.1)
                await client.aforce_release(name)
        assert caught.group_contains(redlock.LockLost)
        assert bystander.cancelled()

    asyncio.run(main())


def test_a_task_group_whose_other_task_fails_cancels_the_holder(
    client: redlock.Redlock, name: str
) -> None:
    async def holder() -> None:
        async with client.lock(name):
            inside.set()
            await asyncio.sleep(20)

    async def fails() -> None:
        await inside.wait()
        raise KeyError(1)

    async def main() -> None:
        with pytest.raises(ExceptionGroup) as caught:
            async with asyncio.TaskGroup() as group:
                holding = group.create_task(holder())
                group.create_task(fails())
        assert [type(error) for error in caught.value.exceptions] == [KeyError]
        assert holding.cancelled()
        assert not (await client.lock(name).ainspect()).held

    inside = asyncio.Event()
    asyncio.run(main())


def test_nested_scopes_lose_the_outer_one(client: redlock.Redlock, name: str) -> None:
    async def main() -> None:
        inner_error: BaseException | None = None
        with pytest.raises(redlock.LockLost, match=f"{name}-outer"):
            async with client.lock(f"{name}-outer"):
                try:
                    async with client.lock(f"{name}-inner"):
                        await client.aforce_release(f"{name}-outer")
                        await asyncio.sleep(20)
                except BaseException as error:
                    inner_error = error
                    raise
        assert isinstance(inner_error, asyncio.CancelledError)
        assert not (await client.lock(f"{name}-inner").ainspect()).held

    ends(main)


def test_nested_scopes_lose_the_inner_one(client: redlock.Redlock, name: str) -> None:
    async def main() -> None:
        async with client.lock(f"{name}-outer") as lease:
            with pytest.raises(redlock.LockLost, match=f"{name}-inner"):
                async with client.lock(f"{name}-inner"):
                    await client.aforce_release(f"{name}-inner")
                    await asyncio.sleep(20)
            await asyncio.sleep(0.01)
            assert lease.held

    ends(main)


def test_nested_scopes_lose_both(client: redlock.Redlock, name: str) -> None:
    async def main() -> None:
        with pytest.raises(redlock.LockLost, match=f"{name}-outer"):
            async with client.lock(f"{name}-outer") as outer, client.lock(f"{name}-inner") as inner:
                client.force_release(f"{name}-inner")
                client.force_release(f"{name}-outer")
                while outer.held or inner.held:
                    time.sleep(0.001)
                await asyncio.sleep(20)

    ends(main)


def test_loss_of_a_decorated_call(client: redlock.Redlock, name: str) -> None:
    @client.lock(name)
    async def guarded() -> None:
        await client.aforce_release(name)
        await asyncio.sleep(20)

    async def main() -> None:
        with pytest.raises(redlock.LockLost):
            await guarded()

    ends(main)


def test_an_async_generator_that_is_closed_releases(client: redlock.Redlock, name: str) -> None:
    async def hold() -> AsyncIterator[redlock.Lease]:
        async with client.lock(name) as lease:
            yield lease

    async def main() -> None:
        generator = hold()
        lease = await anext(generator)
        assert lease.held
        await generator.aclose()  # type: ignore[attr-defined]
        assert not lease.held

    ends(main)


def test_the_end_of_the_loop_releases(client: redlock.Redlock, name: str) -> None:
    """asyncio.run cancels what is left, and waits for it."""

    async def hold() -> None:
        async with client.lock(name):
            inside.set()
            await asyncio.sleep(20)

    async def main() -> None:
        background.append(asyncio.create_task(hold()))
        await inside.wait()
        assert (await client.lock(name).ainspect()).held

    background: list[asyncio.Task[None]] = []
    inside = asyncio.Event()
    asyncio.run(main())
    assert background[0].cancelled()
    assert not client.lock(name).inspect().held
