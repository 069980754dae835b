"""A lease that is forgotten or lost, and the notifications."""

import asyncio
import gc
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest
import redlock

from tests.waiting import eventually

from .servers import Server


def test_a_collected_lease_is_not_released(
    redis_client: redlock.Redlock, redis_server: Server, name: str
) -> None:
    with pytest.warns(ResourceWarning, match=rf"lock:{name}.*test_lease\.py:\d+") as warned:
        # Longer than it takes to collect the objects of a thousand tests on a busy machine.
        redis_client.lock(name, ttl=3).acquire()
        gc.collect()
    assert len(warned) == 1
    assert redis_server.client.get(f"lock:{name}") is not None
    assert redis_client.lock(name).try_acquire() is None
    # Renewal has ended.
    eventually(lambda: redis_server.client.get(f"lock:{name}") is None)


def test_callback_that_refers_to_the_lease_does_not_keep_it_alive(
    client: redlock.Redlock, name: str
) -> None:
    """The callback may refer to the lease without keeping it alive."""

    def forget() -> None:
        lease = client.lock(name, ttl=0.5).acquire()
        lease.on_lost(lambda _: print(lease))

    forget()
    with pytest.warns(ResourceWarning, match=f"lock:{name}"):
        gc.collect()


def test_on_lost_runs_on_a_thread_for_losses(client: redlock.Redlock, name: str) -> None:
    notified: list[Any] = []
    event = threading.Event()

    def callback(error: redlock.LockLost) -> None:
        notified.append((error.reason, threading.current_thread().name))
        event.set()

    lease = client.lock(name).acquire()
    lease.on_lost(callback)
    client.force_release(name)
    assert event.wait(60)
    event.clear()
    lease.on_lost(callback)  # lost already, so it is called soon
    assert event.wait(60)
    assert notified == [("missing", "redlock-losses")] * 2
    other = client.lock(name).acquire()
    other.on_lost(callback)
    other.release()
    event.clear()
    last = client.lock(name).acquire()
    last.on_lost(callback)
    client.force_release(name)
    # In order: a notification of the other one would come before this.
    assert event.wait(60)
    assert len(notified) == 3
    assert not last.held


def test_on_lost_runs_on_the_loop(client: redlock.Redlock, name: str) -> None:
    async def main() -> None:
        notified = asyncio.get_running_loop().create_future()
        lease = await client.lock(name).as_async().acquire()
        lease.on_lost(lambda error: notified.set_result((error.reason, threading.current_thread())))
        await client.as_async().force_release(name)
        reason, thread = await asyncio.wait_for(notified, 5)
        assert reason == "missing"
        assert thread is threading.current_thread()

    asyncio.run(main())


def test_loss_is_logged_as_a_warning(
    client: redlock.Redlock,
    name: str,
    caplog: pytest.LogCaptureFixture,
    call: Callable[..., Any],
) -> None:
    caplog.set_level(logging.DEBUG, "redlock")
    lease = call(client.lock(name), "acquire")
    call(client, "force_release", name)
    eventually(lambda: not lease.held)
    with pytest.raises(redlock.LockLost):
        call(lease, "release")

    def losses() -> list[logging.LogRecord]:
        lost = [record for record in caplog.records if record.msg.startswith("lease lost")]
        return [record for record in lost if f"lock:{name}" in record.getMessage()]

    (record,) = eventually(losses)
    assert record.name == "redlock.lease"
    assert record.levelno == logging.WARNING
    assert "missing" in record.getMessage()


def test_expiry_is_logged(
    client: redlock.Redlock,
    name: str,
    caplog: pytest.LogCaptureFixture,
    call: Callable[..., Any],
) -> None:
    lease = call(client.lock(name, ttl=0.1, renew=False), "acquire")

    def said() -> str:
        text = " ".join(record.getMessage() for record in caplog.records)
        return text if "expired" in text else ""

    assert f"lock:{name}" in eventually(said)
    with pytest.raises(redlock.LockLost):
        call(lease, "release")
