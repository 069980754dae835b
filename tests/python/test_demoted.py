"""Servers that are replicas for a while, behind the address of their client."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
import redlock

from tests.ports import free_port

from .servers import Server

pytestmark = pytest.mark.slow("what a client sends in five seconds is counted")

#: The maximum number of connections that a client opens meanwhile.
MAX_CONNECTIONS = 20


@pytest.mark.parametrize("waiters", [1, 8, 100])
def test_demoted_server_gets_few_connections_and_is_found_again(name: str, waiters: int) -> None:
    """Any number of callers cause few connections. Each has its lock within a second of the promotion."""
    granted: list[float] = []

    def work(at: int) -> None:
        with client.lock(f"{name}-{at}", wait=60):
            granted.append(time.monotonic())

    with (
        closing(Server()) as server,
        redlock.Redlock(server.url) as client,
        ThreadPoolExecutor(waiters) as pool,
    ):
        control = server.client
        with client.lock(name):
            pass
        before = control.info("stats")
        control.execute_command("REPLICAOF", "127.0.0.1", free_port())
        calls = [pool.submit(work, at) for at in range(waiters)]
        threading.Event().wait(5)
        after = control.info("stats")
        control.execute_command("REPLICAOF", "NO", "ONE")
        promoted = time.monotonic()
        for call in calls:
            call.result(60)
    connections = after["total_connections_received"] - before["total_connections_received"]
    commands = after["total_commands_processed"] - before["total_commands_processed"]
    assert connections <= MAX_CONNECTIONS
    # Each caller sends a vote and a delete over the connection that ends.
    assert commands <= 3 * MAX_CONNECTIONS + 6 * waiters
    assert len(granted) == waiters
    assert max(granted) - promoted < 1
