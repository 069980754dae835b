"""A server for the session, a client over it or over memory://, and one way to drive both sync and async."""

import asyncio
import gc
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
import redis.asyncio
import redlock

from . import processes
from .servers import Server, Silent


@pytest.fixture(autouse=True)
def no_process_is_left() -> Iterator[None]:
    yield
    processes.end_all()


@pytest.fixture(scope="session")
def redis_server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture(params=[redis.Redis, redis.asyncio.Redis], ids=["sync", "asyncio"])
def library(request: pytest.FixtureRequest) -> Any:
    """A client's class of redis-py."""
    return request.param


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """One with a user, whose password would mean something in a URL; who has another one defines it."""
    server = Server("--user", "app", "on", ">s3c/r:e@t", "~*", "&*", "+@all")
    yield server
    server.close()


@pytest.fixture
def silent() -> Iterator[list[Silent]]:
    """Three nodes; nobody may have called them when the test is over."""
    nodes = [Silent() for _ in range(3)]
    yield nodes
    # What was sent in the background would be under way: the core's thread has had a turn since.
    redlock.Redlock("memory://").lock("turn").acquire().release()
    called = [node.called() for node in nodes]
    for node in nodes:
        node.close()
    assert not any(called), "something was sent"


@pytest.fixture
def name() -> str:
    """A lock name of this test alone."""
    return f"test-{uuid.uuid4().hex[:8]}"


@pytest.fixture(params=["memory", "redis"])
def client(request: pytest.FixtureRequest) -> Iterator[redlock.Redlock]:
    """A client over memory://, then over a server."""
    url = "memory://"
    if request.param == "redis":
        url = request.getfixturevalue("redis_server").url
    with redlock.Redlock(url) as client:
        yield client
    gc.collect()  # a lease that the test forgot warns here, and a warning is a failure


@pytest.fixture
def redis_client(redis_server: Server) -> Iterator[redlock.Redlock]:
    """A client over a server only: for what is looked at from outside."""
    with redlock.Redlock(redis_server.url) as client:
        yield client
    gc.collect()


@pytest.fixture(params=["sync", "async"])
def call(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """`call(object, "verb", ...)`: the verb itself, or its twin with an `a` awaited in one event loop."""
    if request.param == "sync":
        yield lambda thing, verb, *args, **options: getattr(thing, verb)(*args, **options)
        return

    async def awaited(thing: Any, verb: str, args: Any, options: Any) -> Any:
        return await getattr(thing, f"a{verb}")(*args, **options)

    with asyncio.Runner() as runner:
        yield lambda thing, verb, *args, **options: runner.run(awaited(thing, verb, args, options))


@pytest.fixture
def within(request: pytest.FixtureRequest, call: Any) -> Callable[..., Any]:
    """`within(lock, body)`: what `body(lease)` gives inside of `with lock`, or inside of `async with lock`."""
    node: Any = request.node

    def run(lock: redlock.Lock, body: Callable[[redlock.Lease], object]) -> object:
        if node.callspec.params["call"] == "sync":
            with lock as lease:
                return body(lease)

        async def main() -> object:
            async with lock as lease:
                return body(lease)

        return asyncio.run(main())

    return run
