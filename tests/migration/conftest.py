"""Servers, and every library with as many of them as it supports."""

import os
import uuid
from collections.abc import Iterator

import pytest
import redlock
from cross.agents import built

from tests.servers import Server

from .peers import LIBRARIES, Library, Peer, named

CHOSEN = os.environ.get("REDLOCK_TEST_LIBRARIES", " ".join(each.name for each in LIBRARIES)).split()
CASES = [
    (named(name), nodes) for name in CHOSEN for nodes in ((1, 3) if named(name).quorum else (1,))
]


@pytest.fixture(scope="session")
def rust_agent() -> None:
    """Builds the Rust agent before the time limit of a test starts."""
    built("agent")


@pytest.fixture(scope="session")
def servers() -> Iterator[list[Server]]:
    servers = [Server() for _ in range(3)]
    yield servers
    for server in servers:
        server.close()


@pytest.fixture
def name() -> str:
    """Returns a lock name for this test only."""
    return f"test-{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="module", params=CASES, ids=lambda case: f"{case[0].name}-{case[1]}")
def nodes(request: pytest.FixtureRequest, servers: list[Server]) -> tuple[Library, list[Server]]:
    library, count = request.param
    return library, servers[:count]


@pytest.fixture(scope="module")
def peer(nodes: tuple[Library, list[Server]]) -> Iterator[Peer]:
    library, servers = nodes
    with Peer(library, [server.url for server in servers]) as peer:
        yield peer


@pytest.fixture(scope="module")
def ours(nodes: tuple[Library, list[Server]]) -> Iterator[redlock.Redlock]:
    """Creates a redlock client for the same keys. New servers are younger than the default restart guard."""
    library, servers = nodes
    urls = [server.url for server in servers]
    with redlock.Redlock(urls, key_prefix=library.prefix, restart_guard=0) as client:
        yield client
