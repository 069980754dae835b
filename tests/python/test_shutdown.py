"""How clients and leases end: in order, in a hurry, released under a body, and the notifications."""

import asyncio
import gc
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import redlock

from tests.servers import Server, Silent
from tests.waiting import aeventually, eventually, forever

Call = Callable[..., Any]


def wait_until_lost(lease: redlock.Lease) -> None:
    while lease.held:
        pass


def assert_no_earlier_notification(client: redlock.Redlock, notified: list[Any]) -> None:
    """Checks that no notification came before and none is pending. Losses are reported in order."""
    lease = client.lock("the-next").acquire()
    lease.on_lost(notified.append)
    client.force_release("the-next")
    (error,) = eventually(lambda: list(notified))
    assert error.resource == "lock:the-next"
    wait_until_lost(lease)


@pytest.mark.parametrize("how", ["dropped", "cycle", "released"])
def test_on_lost_is_called_once_for_collected_and_released_leases(
    client: redlock.Redlock, name: str, how: str
) -> None:
    notified: list[int] = []

    def one(number: int) -> None:
        lease = client.lock(name).acquire()
        cycle = [lease] if how == "cycle" else []
        lease.on_lost(lambda _, cycle=cycle: notified.append(number))  # type: ignore[misc]
        client.force_release(name)
        wait_until_lost(lease)
        if how == "released":
            with pytest.raises(redlock.LockLost):
                lease.release()

    for number in range(20):
        one(number)
        if how == "cycle":
            gc.collect()
    lease = client.lock(name).acquire()
    lease.on_lost(lambda _: notified.append(20))
    client.force_release(name)
    # Losses are reported in order, so a second report of an earlier one would come before this.
    eventually(lambda: 20 in notified)
    wait_until_lost(lease)
    assert notified == list(range(21))


def test_loop_calls_on_lost_after_the_lease_is_collected(
    client: redlock.Redlock, name: str
) -> None:
    async def main() -> None:
        notified: list[int] = []
        for number in range(21):
            lease = await client.lock(name).as_async().acquire()
            lease.on_lost(lambda _, number=number: notified.append(number))  # type: ignore[misc]
            await client.as_async().force_release(name)
            wait_until_lost(lease)
            del lease
        # In order: a second report of an earlier one would come before the last.
        await aeventually(lambda: 20 in notified)
        assert notified == list(range(21))

    asyncio.run(main())


def test_release_and_detach_do_not_notify(client: redlock.Redlock, name: str) -> None:
    notified: list[object] = []
    for end in ("release", "detach"):
        lease = client.lock(f"{name}-{end}").acquire()
        lease.on_lost(notified.append)
        getattr(lease, end)()
        assert repr(lease).endswith(("released>", "detached>"))
        del lease
    client.force_release(f"{name}-detach")
    assert_no_earlier_notification(client, notified)


def test_body_of_a_revoked_lease_is_notified(
    client: redlock.Redlock, name: str, call: Call
) -> None:
    reasons: list[str | None] = []
    with pytest.raises(redlock.LockLost) as caught, client.lock(name) as lease:
        lease.on_lost(lambda error: reasons.append(error.reason))
        assert call(client, "release_all") == 1
        assert not lease.held
        with client.lock(name, wait=5):
            pass
    assert caught.value.reason == "revoked"
    eventually(lambda: reasons)
    assert reasons == ["revoked"]


def test_task_of_a_revoked_lease_is_cancelled(client: redlock.Redlock, name: str) -> None:
    async def main() -> None:
        async with client.lock(name):
            assert await client.as_async().release_all() == 1
            await forever()

    with pytest.raises(redlock.LockLost) as caught:
        asyncio.run(asyncio.wait_for(main(), 20))
    assert caught.value.reason == "revoked"
    assert isinstance(caught.value.__cause__, asyncio.CancelledError)


def test_early_release_by_the_body_is_not_a_loss(client: redlock.Redlock, name: str) -> None:
    notified: list[object] = []
    with client.lock(name) as lease:
        lease.on_lost(notified.append)
        lease.release()

    async def main() -> None:
        async with client.lock(name) as lease:
            lease.on_lost(notified.append)
            await lease.release()
            await client.lock(f"{name}-2").as_async().inspect()

    asyncio.run(main())
    assert_no_earlier_notification(client, notified)
    assert client.release_all() == 0


def test_async_shutdown_lets_acquires_of_the_same_turn_finish(
    redis_server: Server, name: str
) -> None:
    client, other = redlock.Redlock(redis_server.url), redlock.Redlock(redis_server.url)

    async def waits() -> bool:
        async with client.lock(name) as lease:
            return lease.held

    async def main() -> None:
        foreign = await other.lock(name).as_async().acquire()
        waiters = [asyncio.create_task(waits()) for _ in range(3)]
        down = asyncio.create_task(client.as_async().shutdown(600))
        await aeventually(lambda: client.stats().waiting == 3)
        with pytest.raises(redlock.ClientClosed):
            await client.lock(f"{name}-new").as_async().acquire()
        await foreign.release()
        assert await asyncio.gather(*waiters) == [True] * 3
        assert await down == 0

    asyncio.run(main())


@pytest.mark.parametrize("style", ["with", "async with"])
def test_leaving_a_client_revokes_its_leases(redis_server: Server, name: str, style: str) -> None:
    def check(client: redlock.Redlock, lease: redlock.Lease) -> None:
        with pytest.raises(redlock.LockLost) as caught:
            lease.ensure_held()
        assert caught.value.reason == "revoked"
        assert redis_server.client.get(lease.key) is None
        with pytest.raises(redlock.ClientClosed):
            client.lock(name).try_acquire()

    async def main() -> None:
        async with redlock.AsyncRedlock(redis_server.url) as client:
            lease = await client.lock(name, ttl=30).acquire()
        check(client.as_sync(), lease.as_sync())

    if style == "async with":
        asyncio.run(main())
        return
    with redlock.Redlock(redis_server.url) as client:
        lease = client.lock(name, ttl=30).acquire()
    check(client, lease)


def test_closed_coroutine_inside_a_client_revokes_its_leases(
    redis_server: Server, name: str
) -> None:
    async def body() -> None:
        async with redlock.AsyncRedlock(redis_server.url) as client:
            lease = await client.lock(name, ttl=30).acquire()
            await forever()
            lease.ensure_held()

    coroutine = body()

    async def begin() -> None:
        coroutine.send(None)
        coroutine.close()

    asyncio.run(begin())
    eventually(lambda: redis_server.client.get(f"lock:{name}") is None)


def test_leaving_a_client_without_its_node_keeps_the_bodys_error() -> None:
    server = Server()
    try:
        with pytest.raises(ZeroDivisionError), redlock.Redlock(server.url) as client:
            lease = client.lock("job").acquire()
            server.freeze()
            raise ZeroDivisionError
        assert not lease.held
        server.thaw()
    finally:
        server.close()


@pytest.mark.parametrize("wrong", [None, "10", True, -1, float("nan"), 1e12, b"1"])
def test_invalid_shutdown_timeout_is_refused(silent: list[Silent], call: Call, wrong: Any) -> None:
    client = redlock.Redlock(silent[0].url)
    with pytest.raises(redlock.InvalidOption, match="timeout"):
        call(client, "shutdown", wrong)
    client.close()


def test_blocking_shutdown_in_a_loop_warns(name: str) -> None:
    async def main() -> None:
        client = redlock.Redlock("memory://")
        lease = await client.lock(name).as_async().acquire()
        with pytest.warns(RuntimeWarning, match=r"await client\.as_async\(\)\.shutdown"):
            assert client.shutdown(0.2) == 1
        assert not lease.held

    asyncio.run(main())


@pytest.mark.filterwarnings("ignore:.*blocks the event loop:RuntimeWarning")
def test_shutdown_that_blocks_a_loop_reports_its_acquires(server: Server, name: str) -> None:
    async def main() -> None:
        client = redlock.Redlock(server.url, node_timeout=60)
        server.freeze()
        acquire = asyncio.create_task(client.lock(name, ttl=300).as_async().acquire())
        await asyncio.sleep(0)
        server.thaw()
        # Without a further turn of the loop, the acquire cannot end.
        eventually(lambda: server.client.exists(f"lock:{name}"))
        with pytest.raises(redlock.QuorumUnavailable, match="acquires have not ended"):
            client.shutdown(0)
        with pytest.raises(redlock.ClientClosed):
            await acquire
        eventually(lambda: not server.client.exists(f"lock:{name}"))

    asyncio.run(main())


def test_cancelled_shutdown_continues_in_the_background(client: redlock.Redlock, name: str) -> None:
    """Otherwise the client would reject acquires and keep its leases."""

    async def main() -> None:
        lease = await client.lock(name, ttl=300).as_async().acquire()
        reasons: list[str | None] = []
        lease.on_lost(lambda error: reasons.append(error.reason))
        shutdown = asyncio.create_task(client.as_async().shutdown(0.05))
        await asyncio.sleep(0)
        shutdown.cancel()
        with pytest.raises(asyncio.CancelledError):
            await shutdown
        await aeventually(lambda: reasons == ["revoked"])
        with pytest.raises(redlock.LockLost):
            await lease.release()

    asyncio.run(main())


AT_EXIT = {
    "global": ("lease = lock.acquire()", True),
    "daemon thread": (
        """
import threading
entered = threading.Event()

def hold():

    with lock:
        entered.set()
        threading.Event().wait()
threading.Thread(target=hold, daemon=True).start()
entered.wait()
""",
        True,
    ),
    "with": ("import sys\nwith lock: sys.exit()", False),
    "task": (
        """
import asyncio

async def hold(entered):

    async with lock:
        entered.set()
        await asyncio.Event().wait()

async def main():
    entered = asyncio.Event()
    task = asyncio.create_task(hold(entered))
    await entered.wait()
asyncio.run(main())
""",
        False,
    ),
    "atexit": ("import atexit; atexit.register(client.shutdown, 0); lease = lock.acquire()", False),
}


@pytest.mark.parametrize("what", AT_EXIT)
def test_exit_releases_only_the_leases_of_scopes_that_end(
    redis_server: Server, name: str, what: str
) -> None:
    """As docs/how-to/shutdown.md describes it."""
    program, stays = AT_EXIT[what]
    begin = f"import redlock; client = redlock.Redlock({redis_server.url!r}); lock = client.lock({name!r}, ttl=60)"
    subprocess.run([sys.executable, "-c", f"{begin}\n{program}"], check=True, timeout=30)
    assert bool(redis_server.client.delete(f"lock:{name}")) is stays
