"""A server for the session, a client over it or over memory://, and one way to call both sync and async."""

import asyncio
import gc
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
import redis.asyncio
import redlock

from tests.servers import Server, Silent

from . import processes


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
    """Returns a client class of redis-py."""
    return request.param


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Starts a server with a user whose password has special characters of a URL. Test modules may override it."""
    server = Server("--user", "app", "on", ">s3c/r:e@t", "~*", "&*", "+@all")
    yield server
    server.close()


@pytest.fixture
def silent() -> Iterator[list[Silent]]:
    """Starts three nodes that must not receive a connection before the test is over."""
    nodes = [Silent() for _ in range(3)]
    yield nodes
    # By now the core's thread has had a turn and would have sent any background request.
    redlock.Redlock("memory://").lock("turn").acquire().release()
    called = [node.called() for node in nodes]
    for node in nodes:
        node.close()
    assert not any(called), "something was sent"


@pytest.fixture
def name() -> str:
    """Returns a lock name for this test only."""
    return f"test-{uuid.uuid4().hex[:8]}"


@pytest.fixture(params=["memory", "redis"])
def client(request: pytest.FixtureRequest) -> Iterator[redlock.Redlock]:
    """Yields a client over memory://, then one over a server."""
    url = "memory://"
    if request.param == "redis":
        url = request.getfixturevalue("redis_server").url
    with redlock.Redlock(url) as client:
        yield client
    gc.collect()  # a forgotten lease warns here, and a warning is a failure


@pytest.fixture
def aclient(client: redlock.Redlock) -> redlock.AsyncRedlock:
    """Returns the asynchronous form of `client`."""
    return client.as_async()


@pytest.fixture
def redis_client(redis_server: Server) -> Iterator[redlock.Redlock]:
    """Yields a client over a server only, for tests that inspect the server."""
    with redlock.Redlock(redis_server.url) as client:
        yield client
    gc.collect()


@pytest.fixture(params=["sync", "async"])
def call(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """`call(object, "verb", ...)` calls the blocking verb, or awaits that of the asynchronous form in one event loop.

    Takes and returns blocking objects.
    """
    if request.param == "sync":
        yield lambda thing, verb, *args, **options: getattr(thing, verb)(*args, **options)
        return

    async def awaited(thing: Any, verb: str, args: Any, options: Any) -> Any:
        result = await getattr(thing.as_async(), verb)(*args, **options)
        return result.as_sync() if isinstance(result, redlock.AsyncLease) else result

    with asyncio.Runner() as runner:
        yield lambda thing, verb, *args, **options: runner.run(awaited(thing, verb, args, options))


@pytest.fixture
def one_owner(request: pytest.FixtureRequest) -> bool:
    """Returns whether all of `call` has one owner. In the asynchronous form, each call is a task."""
    node: Any = request.node
    return bool(node.callspec.params["call"] == "sync")


@pytest.fixture
def within(request: pytest.FixtureRequest, call: Any) -> Callable[..., Any]:
    """`within(lock, body)` returns the result of `body(lease)` inside `with lock`, or inside `async with lock`."""
    node: Any = request.node

    def run(lock: redlock.Lock, body: Callable[[redlock.Lease], object]) -> object:
        if node.callspec.params["call"] == "sync":
            with lock as lease:
                return body(lease)

        async def main() -> object:
            async with lock as lease:
                return body(lease.as_sync())

        return asyncio.run(main())

    return run
