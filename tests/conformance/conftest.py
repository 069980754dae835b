"""One agent for each language and kind of nodes, which serves all tests, and new clients for each of them."""

import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.cross.agents import Agent, Reply, built
from tests.servers import Server

from .remote import Client, Conversation

IMPLEMENTATIONS = ("rust", "python", "asyncio", "node")
#: The nodes of the clients: one in memory with the clock of a test, one server, and five servers.
NODES = ("memory", "one-server", "five-servers")


@dataclass
class World:
    """The clients of a test, `one` and `two`, over the same nodes."""

    conversation: Conversation
    one: Client
    two: Client
    #: Empty, if the nodes are in memory.
    servers: list[Server]
    #: A name for this test only.
    name: str
    #: The further clients of the test.
    more: list[Client] = field(default_factory=list)

    def client(self, **options: object) -> Client:
        """A further client of the same nodes."""
        client = Client(self.conversation, f"more-{uuid.uuid4().hex[:8]}", **options)
        self.more.append(client)
        return client

    def attempt(self, **options: object) -> Reply:
        """Returns the reply to the creation of a client, which may be refused."""
        return self.conversation.begin("client", client="attempt", **options).reply()

    @property
    def language(self) -> str:
        return self.conversation.agent.language

    def command(self, *words: str | int) -> list[Any]:
        """Returns the replies of all servers to a command."""
        return [server.command(*words) for server in self.servers]


@pytest.fixture(scope="session")
def servers() -> Iterator[list[Server]]:
    with ExitStack() as stack:
        yield [stack.enter_context(Server()) for _ in range(5)]


@pytest.fixture(scope="session")
def conversations() -> Iterator[dict[tuple[str, str], Conversation]]:
    built("agent")
    begun: dict[tuple[str, str], Conversation] = {}
    yield begun
    for conversation in begun.values():
        conversation.agent.kill()


def world_of(request: pytest.FixtureRequest, implementation: str, nodes: str) -> Iterator[World]:
    servers: list[Server] = []
    if nodes != "memory":
        servers = request.getfixturevalue("servers")[: 1 if nodes == "one-server" else 5]
    begun = request.getfixturevalue("conversations")
    key = (implementation, nodes)
    if key not in begun or begun[key].agent.process.poll() is not None:
        urls = [server.url for server in servers] or ["memory://"]
        begun[key] = Conversation(Agent(implementation, urls))
    conversation = begun[key]
    one = Client(conversation, "one", **({} if servers else {"nodes": ["memory://"]}))
    two = Client(conversation, "two")
    world = World(conversation, one, two, servers, f"test-{uuid.uuid4().hex[:8]}")
    yield world
    # An open client would connect again and again to a server that has ended, and later to another one on its port.
    for client in (one, two, *world.more):
        client.do("close")


@pytest.fixture(params=NODES)
def nodes(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=NODES[1:])
def count(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=IMPLEMENTATIONS)
def world(request: pytest.FixtureRequest, nodes: str) -> Iterator[World]:
    """Clients in each language, over each kind of nodes."""
    yield from world_of(request, request.param, nodes)


@pytest.fixture(params=IMPLEMENTATIONS)
def on_servers(request: pytest.FixtureRequest) -> Iterator[World]:
    """Clients in each language, over a server whose data the test looks at."""
    yield from world_of(request, request.param, "one-server")


@pytest.fixture(params=IMPLEMENTATIONS)
def on_all(request: pytest.FixtureRequest, count: str) -> Iterator[World]:
    """The same over one server, and over five."""
    yield from world_of(request, request.param, count)


@pytest.fixture(params=IMPLEMENTATIONS)
def timed(request: pytest.FixtureRequest) -> Iterator[World]:
    """Clients in each language, with a clock that the test advances."""
    yield from world_of(request, request.param, "memory")
