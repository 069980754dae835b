"""Errors and refusals: classes, pickles, and words that help."""

import copy
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import redlock


def fetch(client: redlock.Redlock, name: str) -> redlock.LockTimeout:
    with client.lock(name), warnings.catch_warnings(), pytest.raises(redlock.LockTimeout) as caught:
        warnings.simplefilter("ignore")
        client.lock(name).acquire(wait=0)
    return caught.value


def test_errors_survive_pickling(client: redlock.Redlock, name: str) -> None:
    error = fetch(client, name)
    for other in (pickle.loads(pickle.dumps(error)), copy.deepcopy(error)):
        assert type(other) is redlock.LockTimeout
        assert str(other) == str(error)
        assert other.resource == f"lock:{name}"
        assert vars(other) == vars(error)


def test_nodes_survive_pickling() -> None:
    client = redlock.Redlock("redis://127.0.0.1:1")
    with pytest.raises(redlock.QuorumUnavailable) as caught:
        client.lock("x", ttl=0.5).acquire(wait=0)
    other = pickle.loads(pickle.dumps(caught.value))
    assert other.nodes == caught.value.nodes
    assert other.nodes[0].url == "redis://127.0.0.1:1"
    assert isinstance(other, ConnectionError)


@pytest.mark.parametrize(
    ("use", "words"),
    [
        (lambda c: c.lock("a", 1000), ["1000", "ttl="]),
        (lambda c: c.lock("a", timeout=3), ["'timeout'", "ttl="]),
        (lambda c: c.lock("a", blocking_timeout=3), ["'blocking_timeout'", "wait="]),
        (lambda c: c.lock("a", blocking=False), ["'blocking'", "try_acquire()"]),
        (lambda c: c.lock("a", sleep=0.1), ["'sleep'", "leave it out"]),
        (lambda c: c.lock("a", thread_local=True), ["'thread_local'", "leave it out"]),
        (lambda c: c.lock("a", tll=3), ["'tll'", "ttl="]),
        (lambda c: c.lock("a").acquire(5), ["5", "wait="]),
        (lambda c: c.lock("a").acquire(blocking=False), ["'blocking'", "try_acquire()"]),
        (lambda c: c.lock("a").aacquire(timeout=1), ["'timeout'"]),
        (lambda c: c.lock("a").acquire(wait="soon"), ["wait", "'soon'", "seconds"]),
        (lambda c: c.lock("a").acquire(wait=-1), ["wait", "-1"]),
        (lambda c: c.lock("a", ttl="1"), ["ttl", "'1'", "seconds"]),
        (lambda c: c.lock("a", ttl=True), ["ttl", "True", "seconds"]),
        (lambda c: c.lock("a", ttl=float("nan")), ["ttl"]),
        (lambda c: c.lock("a", ttl=10**400), ["ttl"]),
        (lambda c: c.lock("a", ttl=0.05), ["ttl", "0.1"]),
        (lambda c: c.lock(""), ["empty"]),
        (lambda c: c.lock([]), ["no name"]),
        (lambda c: c.lock(["a", 3]), ["str"]),
        (lambda c: c.lock(["a", "a"]), ["twice"]),
        (lambda c: c.lock(b"a"), ["b'a'", "str"]),
        (lambda c: redlock.lock("a", ttl=0), ["ttl"]),
        (lambda c: redlock.lock("a", 5), ["5"]),
        (lambda c: redlock.Redlock("no scheme"), ["scheme"]),
        (lambda c: redlock.Redlock(3), ["int", "URL"]),
        (lambda c: redlock.Redlock([]), ["node"]),
        (lambda c: redlock.Redlock("memory://", 5), ["5"]),
        (lambda c: redlock.Redlock("memory://", prefix="x"), ["'prefix'", "key_prefix="]),
        (lambda c: redlock.configure("memory://", prefix="x"), ["'prefix'"]),
    ],
)
def test_refusals_name_the_rule(
    client: redlock.Redlock, use: Callable[[Any], Any], words: list[str]
) -> None:
    with pytest.raises(redlock.InvalidOption) as caught:
        use(client)
    assert isinstance(caught.value, ValueError)
    assert caught.value.code == "invalid"
    for word in words:
        assert word in str(caught.value)


def test_a_connection_is_not_shown() -> None:
    """Its repr may have a password in it."""

    class Connection:
        def __repr__(self) -> str:
            return "secret"

    with pytest.raises(redlock.InvalidOption) as caught:
        redlock.Redlock(Connection())  # type: ignore[arg-type]
    assert "secret" not in str(caught.value)
    assert "Connection" in str(caught.value)


def test_a_lock_has_no_truth_and_no_release(client: redlock.Redlock, name: str) -> None:
    lock = client.lock(name)
    with pytest.raises(TypeError, match="try_acquire"):
        bool(lock)
    assert not hasattr(lock, "release")
    with lock.acquire() as lease:
        assert bool(lease)


def test_asyncio_verbs_need_a_loop(client: redlock.Redlock, name: str) -> None:
    with pytest.raises(RuntimeError, match="no running event loop"):
        client.lock(name).ainspect()
