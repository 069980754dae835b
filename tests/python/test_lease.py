"""A lease that is forgotten or lost, and who is told."""

import asyncio
import gc
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import redlock

from .servers import Server


def test_a_collected_lease_is_not_released(
    redis_client: redlock.Redlock, redis_server: Server, name: str
) -> None:
    with pytest.warns(ResourceWarning, match=rf"lock:{name}.*test_lease\.py:\d+") as warned:
        # Longer than it takes to collect what a thousand tests have left, on a machine that does other things.
        redis_client.lock(name, ttl=3).acquire()
        gc.collect()
    assert len(warned) == 1
    assert redis_server.client.get(f"lock:{name}") is not None
    assert redis_client.lock(name).try_acquire() is None
    time.sleep(3.1)  # renewal has ended
    assert redis_server.client.get(f"lock:{name}") is None


def test_a_collected_lease_with_a_callback_is_collected(client: redlock.Redlock, name: str) -> None:
    """The callback may refer to the lease without keeping it for ever."""

    def forget() -> None:
        lease = client.lock(name, ttl=0.5).acquire()
        lease.on_lost(lambda _: print(lease))

    forget()
    with pytest.warns(ResourceWarning, match=f"lock:{name}"):
        gc.collect()


def test_on_lost_on_the_dispatcher(client: redlock.Redlock, name: str) -> None:
    told: list[Any] = []
    event = threading.Event()

    def callback(error: redlock.LockLost) -> None:
        told.append((error.reason, threading.current_thread().name))
        event.set()

    lease = client.lock(name).acquire()
    lease.on_lost(callback)
    client.force_release(name)
    assert event.wait(5)
    event.clear()
    lease.on_lost(callback)  # lost already: soon
    assert event.wait(5)
    assert told == [("missing", "redlock-dispatch")] * 2
    other = client.lock(name).acquire()
    other.on_lost(callback)
    other.release()
    time.sleep(0.1)
    assert len(told) == 2


def test_on_lost_on_the_loop(client: redlock.Redlock, name: str) -> None:
    async def main() -> None:
        told = asyncio.get_running_loop().create_future()
        lease = await client.lock(name).aacquire()
        lease.on_lost(lambda error: told.set_result((error.reason, threading.current_thread())))
        await client.aforce_release(name)
        reason, thread = await asyncio.wait_for(told, 5)
        assert reason == "missing"
        assert thread is threading.current_thread()

    asyncio.run(main())


def test_logs_reach_logging(
    client: redlock.Redlock,
    name: str,
    caplog: pytest.LogCaptureFixture,
    call: Callable[..., Any],
) -> None:
    caplog.set_level(logging.DEBUG, "redlock")
    lease = call(client.lock(name), "acquire")
    call(client, "force_release", name)
    end = time.monotonic() + 5
    while lease.held and time.monotonic() < end:
        time.sleep(0.001)
    with pytest.raises(redlock.LockLost):
        call(lease, "release")
    found: list[logging.LogRecord] = []
    while time.monotonic() < end and not found:
        lost = [record for record in caplog.records if record.msg.startswith("lease lost")]
        found = [record for record in lost if f"lock:{name}" in record.getMessage()]
    (record,) = found
    assert record.name == "redlock.lease"
    assert record.levelno == logging.WARNING
    assert "missing" in record.getMessage()


def test_an_expiry_is_logged_too(
    client: redlock.Redlock,
    name: str,
    caplog: pytest.LogCaptureFixture,
    call: Callable[..., Any],
) -> None:
    lease = call(client.lock(name, ttl=0.1, renew=False), "acquire")
    end = time.monotonic() + 5
    text = ""
    while "expired" not in text and time.monotonic() < end:
        time.sleep(0.01)
        text = " ".join(record.getMessage() for record in caplog.records)
    assert f"lock:{name}" in text
    assert "expired" in text
    with pytest.raises(redlock.LockLost):
        call(lease, "release")
