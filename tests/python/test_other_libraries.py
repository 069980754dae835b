"""Errors of other lock libraries that no other file here tests. docs/contributing/faults.md has the list."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import redlock

from tests.servers import Server

Call = Callable[..., Any]


def test_another_thread_can_extend_and_release(
    client: redlock.Redlock, name: str, call: Call
) -> None:
    lease = call(client.lock(name), "acquire")
    failed: list[BaseException] = []

    def work() -> None:
        try:
            lease.extend(20)
            lease.release()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(10)
    assert not failed
    assert not lease.held
    again = call(client.lock(name), "try_acquire")
    call(again, "release")


def test_a_body_does_not_run_without_the_lock(client: redlock.Redlock, name: str) -> None:
    ran = False

    def sync() -> None:
        nonlocal ran
        with client.lock(name, wait=0):
            ran = True

    async def asynchronous() -> None:
        nonlocal ran
        async with client.lock(name, wait=0):
            ran = True

    other = threading.Thread(target=lambda: leases.append(client.lock(name).acquire()))
    leases: list[redlock.Lease] = []
    other.start()
    other.join(10)
    with pytest.raises(redlock.LockTimeout):
        sync()
    with pytest.raises(redlock.LockTimeout):
        asyncio.run(asynchronous())
    assert not ran
    leases[0].release()


@pytest.mark.slow("a server that is frozen while renewals are due")
def test_failed_renewal_is_retried(name: str) -> None:
    """A failed renewal ends neither the renewals nor the lease."""
    server = Server()
    try:
        with redlock.Redlock(server.url) as client:
            lease = client.lock(name, ttl=2).acquire()
            time.sleep(0.3)
            server.freeze()
            time.sleep(0.8)
            server.thaw()
            time.sleep(2)
            assert lease.held
            lease.release()
    finally:
        server.close()


@pytest.mark.slow("counts what is sent in a time")
def test_renewal_sends_few_commands_per_ttl(
    redis_client: redlock.Redlock, redis_server: Server, name: str
) -> None:
    for ttl in (0.3, 1.25):
        with redis_client.lock(f"{name}-{ttl}", ttl=ttl).acquire() as lease:
            before = asked(redis_server)
            time.sleep(2 * ttl)
            assert asked(redis_server) - before <= 12
            assert lease.held


def asked(server: Server) -> int:
    return int(server.client.info("commandstats").get("cmdstat_evalsha", {}).get("calls", 0))
