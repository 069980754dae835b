"""Servers for a whole session, and a unique lock name for each test."""

import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers import Server

from .agents import built


@pytest.fixture(scope="session", autouse=True)
def rust_agent() -> None:
    """Builds the Rust agent before the time limit of a test starts."""
    built("agent")


@pytest.fixture(scope="session")
def clock_library(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Builds a library that shifts a process's wall clock by WALL_OFFSET_S, or as WALL_OFFSET_FILE specifies."""
    library = tmp_path_factory.mktemp("clock") / "wall_clock.so"
    source = Path(__file__).with_name("wall_clock.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    return str(library)


@pytest.fixture(scope="session")
def five() -> Iterator[list[Server]]:
    """Starts five servers that stay alive. A test that kills servers starts its own."""
    servers = [Server() for _ in range(5)]
    yield servers
    for server in servers:
        server.close()


@pytest.fixture(params=[1, 5], ids=["one-node", "five-nodes"])
def nodes(request: pytest.FixtureRequest, five: list[Server]) -> list[str]:
    return [server.url for server in five[: request.param]]


@pytest.fixture
def name() -> str:
    """Returns a lock name for this test only."""
    return f"test-{uuid.uuid4().hex[:8]}"
