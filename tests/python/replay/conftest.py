"""Two independent clients, a redis-py client, and three servers."""

import gc
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import redlock

from tests.servers import Server


@pytest.fixture
def ours(redis_server: Server) -> Iterator[redlock.Redlock]:
    with redlock.Redlock(redis_server.url, key_prefix="") as client:
        yield client
    gc.collect()  # a forgotten lease warns here, and a warning is a failure


@pytest.fixture
def another(redis_server: Server) -> Iterator[redlock.Redlock]:
    """Yields a second client, which acts like another process."""
    with redlock.Redlock(redis_server.url, key_prefix="") as client:
        yield client
    gc.collect()


@pytest.fixture
def r(redis_server: Server) -> Any:
    """Yields the server as redis-py sees it."""
    return redis_server.client


@pytest.fixture(scope="session")
def three_servers() -> Iterator[list[Server]]:
    with ExitStack() as stack:
        servers = [Server() for _ in range(3)]
        for server in servers:
            stack.callback(server.close)
        yield servers


@pytest.fixture
def trio_of_nodes(three_servers: list[Server]) -> Iterator[list[Server]]:
    """Yields three servers that a test may freeze."""
    yield three_servers
    for server in three_servers:
        server.thaw()
