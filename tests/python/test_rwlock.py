"""Read/write locks in Python: how to use the sides, options and mistakes. `conformance/test_rwlock.py` has the rest."""

import asyncio
import pickle
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import pytest
import redlock
import redlock.testing
from redlock.testing import TestRedlock

from tests.servers import Server

Call = Callable[..., Any]


@pytest.fixture
def fake() -> Iterator[TestRedlock]:
    with TestRedlock() as client:
        yield client


def test_scopes_share_the_lock(redis_server: Server, name: str) -> None:
    with redlock.Redlock(redis_server.url) as client:
        config = client.rwlock(name)
        assert (config.name, config.key) == (name, f"lock:{name}")
        with config.read(ttl=20) as one:
            two = config.read().try_acquire()
            assert two is not None
            assert one.key == two.key == config.key
            assert config.write().try_acquire() is None
            assert "held=True, mode='read'" in repr(config.read().inspect())
            two.release()
        with config.write(ttl=20, fencing=True) as writer:
            assert writer.fencing_token > 0
        assert [*redis_server.client.scan_iter(f"*{name}*")] == [f"{{lock:{name}}}:fence"]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_async_scopes_share_the_lock(fake: TestRedlock, backend: str) -> None:
    async def body() -> None:
        config = fake.as_async().rwlock("config")
        async with config.read():
            assert await config.write().try_acquire() is None
        async with config.write():
            assert await config.read().try_acquire() is None

    anyio.run(body, backend=backend)


def test_sides_decorate_functions(fake: TestRedlock) -> None:
    @fake.rwlock("config:{tenant}").read(wait=0, default="busy")
    def load(tenant: str) -> str:
        return tenant

    @fake.as_async().rwlock("config:{tenant}").write(wait=0, default="busy")
    async def store(tenant: str) -> str:
        return tenant

    @fake.rwlock(lambda tenant: f"config:{tenant}").write(wait=0)
    def replace(tenant: str) -> str:
        return load(tenant)

    assert (load("acme"), asyncio.run(store("acme")), replace("acme")) == ("acme", "acme", "busy")
    with fake.rwlock("config:acme").read():
        assert (load("acme"), asyncio.run(store("acme"))) == ("acme", "busy")


def test_default_client_has_read_write_locks() -> None:
    redlock.configure("memory://", replace=True)
    config = redlock.rwlock("config")
    with config.read() as lease:
        assert lease.key == "lock:config"
        assert redlock.rwlock("config").write().try_acquire() is None


def test_owner_that_waits_for_itself_is_warned(fake: TestRedlock) -> None:
    config = fake.rwlock("config")
    # As errors, the warnings end the call before it waits.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with config.read():
            with pytest.raises(
                RuntimeWarning, match="so this call waits for itself once a writer waits"
            ):
                config.read().acquire()
            with pytest.raises(RuntimeWarning, match=r"so this call waits for itself$"):
                config.write().acquire()
            second = config.read().try_acquire()
            assert second is not None
            second.release()
        with config.write(), pytest.raises(RuntimeWarning, match=r"so this call waits for itself$"):
            config.read().acquire()


def test_default_ttl_of_the_sides_does_not_matter_for_the_name() -> None:
    client = redlock.Redlock(["memory://a", "memory://b"], restart_guard=5, node_timeout=2)
    config = client.rwlock("config")
    with pytest.raises(redlock.InvalidOption, match="restart_guard"):
        config.read()
    assert config.write(ttl=3).ttl == 3


def test_pickled_locks_have_the_same_sides(redis_server: Server, name: str) -> None:
    with redlock.Redlock(redis_server.url, key_prefix="app:") as client:
        config = client.rwlock(name)
        again: redlock.RwLock = pickle.loads(pickle.dumps(config))
        asynchronous: redlock.AsyncRwLock = pickle.loads(pickle.dumps(config.as_async()))
        assert config.key == again.key == asynchronous.key == f"app:{name}"
        assert asynchronous.as_sync().name == name
        reader: redlock.Lock = pickle.loads(pickle.dumps(config.read(ttl=7)))
        writer: redlock.Lock = pickle.loads(pickle.dumps(again.write(fencing=True)))
        assert reader.ttl == 7
        with reader, reader.acquire(wait=0):
            assert writer.try_acquire() is None
        with writer as lease:
            assert lease.fencing_token > 0


def test_test_clients_accept_a_side(fake: TestRedlock) -> None:
    config = fake.rwlock("config")
    theirs = fake.hold(config.read(ttl=60))
    assert theirs.ttl == 60
    ours = config.read().acquire()
    assert config.write().try_acquire() is None
    assert fake.lose(config.read())
    assert not ours.held
    fake.hold(config.write())
    assert config.read().try_acquire() is None
    assert fake.force_release("config")


MISTAKES: list[tuple[Call, type[Exception], str]] = [
    (lambda client: client.rwlock(""), redlock.InvalidOption, "a name is empty"),
    (
        lambda client: client.rwlock("a", ttl=5),
        redlock.InvalidOption,
        r"use rwlock\(name\).read\(ttl=...\)",
    ),
    (
        lambda client: client.rwlock("a", 5),
        redlock.InvalidOption,
        r"use rwlock\(name\).read\(ttl=...\)",
    ),
    (
        lambda client: client.rwlock("a").read(5),
        redlock.InvalidOption,
        r"read\(\) was given 5 by position",
    ),
    (
        lambda client: client.rwlock("a").read(fencing=True),
        redlock.InvalidOption,
        "fencing is an option of the lock",
    ),
    (
        lambda client: client.rwlock("a").read(min_hold=1),
        redlock.InvalidOption,
        "min_hold is an option of the lock",
    ),
    (
        lambda client: client.rwlock("a").write(permits=1),
        redlock.InvalidOption,
        "permits is an option of the semaphore",
    ),
    (
        lambda client: client.lock("a", shared=True),
        redlock.InvalidOption,
        r"Use rwlock\(\), whose read\(\)",
    ),
    (
        lambda client: client.rwlock("a").acquire(),
        AttributeError,
        r"has no 'acquire'. Use rwlock.read\(\) or rwlock.write",
    ),
    (
        lambda client: client.rwlock("a").__enter__(),
        TypeError,
        "has two sides: use 'with rwlock.read",
    ),
    (lambda client: client.rwlock("a").__exit__(), TypeError, "has two sides"),
    (
        lambda client: client.as_async().rwlock("a").__aenter__(),
        TypeError,
        "use 'async with rwlock.read",
    ),
    (lambda client: client.as_async().rwlock("a").__aexit__(), TypeError, "has two sides"),
    (lambda client: type(client.rwlock("a"))(), TypeError, "has no constructor"),
    (lambda client: type(client.as_async().rwlock("a"))(), TypeError, "has no constructor"),
]


@pytest.mark.parametrize(("call", "error", "text"), MISTAKES)
def test_mistakes_are_refused_immediately(
    fake: TestRedlock, call: Call, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        call(fake)
    assert repr(fake.rwlock("a")) == "<redlock.RwLock a>"
    assert repr(fake.as_async().rwlock("a")) == "<redlock.AsyncRwLock a>"
