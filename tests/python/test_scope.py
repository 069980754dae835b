"""With statements, decorators, and which lease an exit releases."""

import asyncio
import contextlib
import random
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
import redlock

from tests.waiting import eventually


def force_loss(client: redlock.Redlock, lease: redlock.Lease) -> None:
    """Releases the lease by force, and waits until its holder knows."""
    client.force_release(lease.key.removeprefix("lock:"))
    eventually(lambda: not lease.held)


def test_with_releases(client: redlock.Redlock, name: str) -> None:
    lock = client.lock(name, ttl=timedelta(seconds=5))
    with lock as lease:
        assert lease.held
        assert lock.try_acquire() is None
    assert not lease.held
    with pytest.raises(KeyError), lock as lease:
        raise KeyError(name)
    assert not lease.held


def test_async_with_releases(client: redlock.Redlock, name: str) -> None:
    async def main() -> None:
        lock = client.lock(name)
        async with lock as lease:
            assert lease.held
            assert await lock.as_async().try_acquire() is None
        assert not lease.held
        async with await lock.as_async().acquire() as lease:
            assert lease.held
        assert not lease.held
        with pytest.raises(KeyError):
            async with lock as lease:
                raise KeyError(name)
        assert not lease.held

    asyncio.run(main())


def test_decorated_function_holds_the_lock(client: redlock.Redlock, name: str) -> None:
    lock = client.lock(name)

    @lock
    def guarded(value: int, *, more: int = 0) -> int:
        """Doc."""
        assert lock.try_acquire() is None
        return value + more

    assert guarded(1, more=2) == 3
    assert guarded.__name__ == "guarded"
    assert guarded.__doc__ == "Doc."
    assert not lock.inspect().held


def test_decorated_coroutine_function_holds_the_lock(client: redlock.Redlock, name: str) -> None:
    lock = client.lock(name)

    @lock
    async def guarded(value: int) -> int:
        assert await lock.as_async().try_acquire() is None
        return value

    assert asyncio.run(guarded(4)) == 4
    assert not lock.inspect().held


def test_decorated_function_builds_the_name_from_its_arguments(
    client: redlock.Redlock, name: str
) -> None:
    @client.lock(lambda user, **_: f"{name}:{user}")
    def guarded(user: int, *, deep: bool = False) -> bool:
        assert client.lock(f"{name}:{user}").try_acquire() is None
        if deep:
            return guarded(user + 1)
        return client.lock(f"{name}:{user + 1}").inspect().held

    assert guarded(1) is False
    assert guarded(1, deep=True) is False
    with pytest.raises(redlock.InvalidOption, match="only decorate"):
        client.lock(lambda: name).acquire()


def test_generator_cannot_be_decorated(client: redlock.Redlock, name: str) -> None:
    def generator() -> Iterator[int]:
        yield 1

    with pytest.raises(TypeError, match="generator"):
        client.lock(name)(generator)


def test_many_threads_can_enter_one_lock(client: redlock.Redlock, name: str) -> None:
    lock = client.lock(name, wait=20)
    inside, most, entered = 0, 0, 0

    def work() -> None:
        nonlocal inside, most, entered
        for _ in range(5):
            with lock:
                inside += 1
                most, entered = max(most, inside), entered + 1
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert (most, entered) == (1, 40)


def test_generators_that_end_out_of_order_release_their_own_lease(
    client: redlock.Redlock, name: str
) -> None:
    """Each exit releases the lease of the matching with statement, although both share a Lock and a thread."""
    lock = client.lock(name)

    def hold() -> Iterator[redlock.Lease]:
        with lock as lease:
            yield lease

    first, second = hold(), hold()
    one = next(first)
    force_loss(client, one)  # so that the second may enter while the first is inside
    two = next(second)
    assert two.held
    with pytest.raises(redlock.LockLost):
        next(first)
    assert two.held
    assert next(second, None) is None
    assert not two.held
    assert not one.held


def test_generator_that_ends_on_another_thread_releases(client: redlock.Redlock, name: str) -> None:
    lock = client.lock(name)

    def hold() -> Iterator[redlock.Lease]:
        with lock as lease:
            yield lease

    generator = hold()
    lease = next(generator)
    thread = threading.Thread(target=lambda: next(generator, None))
    thread.start()
    thread.join(10)
    assert not lease.held
    assert lease.token  # it was released, not collected


def test_a_closed_generator_releases(client: redlock.Redlock, name: str) -> None:
    lock = client.lock(name)

    def hold() -> Iterator[redlock.Lease]:
        with lock as lease:
            yield lease

    generator = hold()
    lease = next(generator)
    del generator
    assert not lease.held


def test_exit_stack_releases(client: redlock.Redlock, name: str) -> None:
    first, second = client.lock(f"{name}-1"), client.lock(f"{name}-2")
    with contextlib.ExitStack() as stack:
        one = stack.enter_context(first)
        two = stack.enter_context(second)
        assert one.held
        assert two.held
    assert not one.held
    assert not two.held


def test_exit_stack_does_not_release_the_lease_of_a_with(
    client: redlock.Redlock, name: str
) -> None:
    """The stack's entry has no frame. Its exit must not release the lease of the with statement."""
    lock = client.lock(name)
    stack = contextlib.ExitStack()
    one = stack.enter_context(lock)
    force_loss(client, one)
    with lock as two:
        with pytest.raises(redlock.LockLost):
            stack.close()
        assert two.held
    assert not one.held
    assert not two.held


def test_async_exit_stack_releases(client: redlock.Redlock, name: str) -> None:
    async def main() -> None:
        async with contextlib.AsyncExitStack() as stack:
            lease = await stack.enter_async_context(client.lock(name))
            assert lease.held
        assert not lease.held

    asyncio.run(main())


def test_an_exit_without_an_entry_releases_nothing(client: redlock.Redlock, name: str) -> None:
    lock = client.lock(name)
    with pytest.raises(RuntimeError, match="nothing is released"):
        lock.__exit__(None, None, None)
    with lock as lease:
        assert lease.held


def test_loss_is_raised_at_the_exit(
    client: redlock.Redlock, name: str, within: Callable[..., Any]
) -> None:
    with pytest.raises(redlock.LockLost) as caught:
        within(client.lock(name), lambda _: client.force_release(name))
    assert caught.value.reason == "missing"


def test_exception_of_the_body_is_kept_after_a_loss(
    client: redlock.Redlock, name: str, within: Callable[..., Any]
) -> None:
    def body(lease: redlock.Lease) -> None:
        force_loss(client, lease)
        raise KeyError(1)

    with pytest.raises(KeyError) as caught:
        within(client.lock(name), body)
    assert any(f"lock:{name}" in note for note in caught.value.__notes__)


#: How LockTimeout names the holder, in the core's text.
HELD_BY_CALLER = r"this (thread|task) already holds it, acquired at .*test_scope\.py:\d+\. Locks are not reentrant"
#: The same client, but another thread or task.
HELD_BY_ANOTHER = r"this client holds it, acquired at .*test_scope\.py:\d+$"


def test_thread_that_waits_for_itself_is_warned(client: redlock.Redlock, name: str) -> None:
    lock = client.lock(name)
    with lock:
        with (
            pytest.warns(
                RuntimeWarning,
                match=rf"lock:{name}: this thread already holds it, acquired at .*test_scope\.py:\d+\. "
                "Locks are not reentrant, so this call waits for itself",
            ) as warned,
            pytest.raises(redlock.LockTimeout, match=HELD_BY_CALLER) as caught,
        ):
            lock.acquire(wait=0.1)
        assert warned[0].filename == __file__
        assert str(caught.value).count("reentrant") == 1
        with warnings.catch_warnings(), pytest.raises(redlock.LockTimeout, match=HELD_BY_CALLER):
            warnings.simplefilter("error")
            lock.acquire(wait=0)
        assert lock.try_acquire() is None


def test_another_waiting_thread_is_not_named_as_the_holder(
    client: redlock.Redlock, name: str
) -> None:
    lock = client.lock(name)

    def wait() -> str:
        with pytest.raises(redlock.LockTimeout, match=HELD_BY_ANOTHER) as caught:
            lock.acquire(wait=0.1)
        return str(caught.value)

    with lock, ThreadPoolExecutor(1) as pool:
        assert "reentrant" not in pool.submit(wait).result(10)


def test_thread_that_handed_over_its_lease_is_not_named_as_the_holder(
    client: redlock.Redlock, name: str
) -> None:
    """Like a FastAPI dependency: a generator enters in one thread of a pool and exits in another."""
    lock = client.lock(name)

    @contextlib.contextmanager
    def dependency(wait: float) -> Iterator[redlock.Lease]:
        with lock.acquire(wait=wait) as lease:
            yield lease

    def second() -> str:
        with pytest.raises(redlock.LockTimeout, match=HELD_BY_ANOTHER) as caught, dependency(0.1):
            pytest.fail("entered")
        return str(caught.value)

    with ThreadPoolExecutor(1) as pool:
        first = dependency(10)
        # In the same thread, because a warning is an error here.
        pool.submit(first.__enter__).result(10)
        assert "reentrant" not in pool.submit(second).result(10)
    first.__exit__(None, None, None)
    assert not lock.inspect().held


def test_thread_whose_exit_stack_holds_the_lock_is_warned(
    client: redlock.Redlock, name: str
) -> None:
    lock = client.lock(name, wait=0.1)
    with contextlib.ExitStack() as stack:
        stack.enter_context(lock)
        with (
            pytest.warns(RuntimeWarning, match="this thread already holds it"),
            pytest.raises(redlock.LockTimeout, match="this thread already holds it"),
        ):
            lock.acquire()


#: Code that a notebook runs in its event loop. `get_ipython` exists in every cell.
CELLS = {
    "a cell": ("with lock: pass", False),
    "a function of a cell": ("def f():\n    with lock: pass\nf()", False),
    "a shutdown": ("client.shutdown(0)", False),
    "a coroutine": ("async def f():\n    with lock: pass\nwarn(f())", True),
}


@pytest.mark.parametrize("about", CELLS)
def test_notebook_cell_gets_no_warning_about_the_loop(
    client: redlock.Redlock, name: str, about: str
) -> None:
    cell, warns = CELLS[about]

    def warn(coroutine: Any) -> None:
        with pytest.raises(RuntimeWarning, match="blocks the event loop"):
            coroutine.send(None)

    async def kernel() -> None:
        names = {"get_ipython": None, "lock": client.lock(name), "client": client, "warn": warn}
        exec(compile(cell, "<ipython-input-1>", "exec"), names)

    asyncio.run(kernel())
    assert warns == ("warn(" in cell)


def test_task_that_waits_for_itself_is_warned(client: redlock.Redlock, name: str) -> None:
    async def main() -> None:
        lock = client.lock(name)
        async with lock:
            with (
                pytest.warns(RuntimeWarning, match="this task already holds it.*not reentrant"),
                pytest.raises(redlock.LockTimeout, match=HELD_BY_CALLER),
            ):
                await lock.as_async().acquire(wait=0.1)

            async def other() -> None:
                with pytest.raises(redlock.LockTimeout, match=HELD_BY_ANOTHER) as caught:
                    await lock.as_async().acquire(wait=0.1)  # no warning, which would be an error
                assert "reentrant" not in str(caught.value)

            await asyncio.create_task(other())

    asyncio.run(main())


def test_blocking_acquire_in_a_loop_warns_once(client: redlock.Redlock, name: str) -> None:
    lease = client.lock(name).acquire()

    async def main() -> None:
        with (
            pytest.warns(RuntimeWarning, match="async with") as warned,
            pytest.raises(redlock.LockTimeout),
        ):
            client.lock(name).acquire(wait=0.3)
        assert len(warned) == 1

    asyncio.run(main())
    lease.release()


def test_async_with_closes_the_client(client: redlock.Redlock, name: str) -> None:
    async def main() -> None:
        aclient = client.as_async()
        async with aclient as same:
            assert same is aclient
            lease = await aclient.lock(name).acquire()
        assert not lease.held
        with pytest.raises(redlock.ClientClosed):
            await aclient.lock(name).acquire()

    asyncio.run(main())


def test_signal_between_grant_and_body_leaves_no_lease(client: redlock.Redlock, name: str) -> None:
    """If a handler raises, no lock is held yet, or the with statement releases it."""
    lock, main, done = client.lock(name), threading.get_ident(), threading.Event()
    armed, raised = False, 0

    def interrupt(*_: object) -> None:
        nonlocal armed
        if armed:
            armed = False
            raise KeyboardInterrupt

    def shoot() -> None:
        while not done.wait(random.random() / 2000):
            signal.pthread_kill(main, signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, interrupt)
    thread = threading.Thread(target=shoot)
    thread.start()
    try:
        rounds, until = 0, time.monotonic() + 30
        # On a busy machine the other thread may get no turn for a long time.
        while rounds < 400 or (not raised and time.monotonic() < until):
            rounds += 1
            try:
                armed = True
                with lock:
                    pass
                armed = False
            except KeyboardInterrupt:
                raised += 1
            lock.acquire(wait=20).release()
    finally:
        done.set()
        thread.join()
        signal.signal(signal.SIGUSR1, before)
    assert raised > 0
    assert client.leases() == []
