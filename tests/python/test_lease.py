"""A lease that is forgotten or lost, and the notifications."""

import asyncio
import gc
import threading
from typing import Any, Literal
from warnings import catch_warnings, simplefilter

import pytest
import redlock

from tests.servers import Server
from tests.waiting import eventually


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


@pytest.mark.parametrize(
    ("action", "warnings", "records"),
    [("default", 1, 0), ("always", 1, 0), ("ignore", 0, 1)],
)
def test_a_collected_lease_is_reported_once(
    client: redlock.Redlock,
    name: str,
    caplog: pytest.LogCaptureFixture,
    action: Literal["default", "always", "ignore"],
    warnings: int,
    records: int,
) -> None:
    """As a warning if the program shows those, otherwise as a log record. Python ignores ResourceWarning by default."""
    with catch_warnings(record=True) as warned:
        simplefilter(action, ResourceWarning)
        client.lock(name).acquire()
        gc.collect()
    assert [entry.category for entry in warned] == [ResourceWarning] * warnings

    def logged() -> list[str]:
        return [text for text in caplog.messages if f"lock:{name}: a lease was collected" in text]

    if records:
        eventually(logged)
    # A later record of the same queue follows all earlier ones.
    client.lock(f"{name}-last", ttl=7200).acquire().release()
    eventually(lambda: [text for text in caplog.messages if f"{name}-last" in text])
    assert len(logged()) == records


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
