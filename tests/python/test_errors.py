"""Errors: pickles of exceptions, and the messages for methods that a Lock does not have."""

import builtins
import copy
import pickle
import tomllib
import warnings
from pathlib import Path

import pytest
import redlock

ERRORS = tomllib.loads((Path(__file__).parent.parent / "vectors/errors.toml").read_text())["error"]


@pytest.mark.parametrize("case", ERRORS, ids=lambda case: str(case["class"]))
def test_error_classes_match_the_table(case: dict[str, str]) -> None:
    kind = getattr(redlock, case["class"])
    assert kind.code == case["kind"]
    assert issubclass(kind, getattr(redlock, case.get("also", "LockError")))
    assert issubclass(kind, getattr(builtins, case.get("python_also", "Exception")))
    assert str(kind("message")) == "message"


def timeout_error(client: redlock.Redlock, name: str) -> redlock.LockTimeout:
    with client.lock(name), warnings.catch_warnings(), pytest.raises(redlock.LockTimeout) as caught:
        warnings.simplefilter("ignore")
        client.lock(name).acquire(wait=0)
    return caught.value


def test_errors_survive_pickling(client: redlock.Redlock, name: str) -> None:
    error = timeout_error(client, name)
    for other in (pickle.loads(pickle.dumps(error)), copy.deepcopy(error)):
        assert type(other) is redlock.LockTimeout
        assert str(other) == str(error)
        assert other.resource == f"lock:{name}"
        assert vars(other) == vars(error)


def test_nodes_of_an_error_survive_pickling() -> None:
    client = redlock.Redlock("redis://127.0.0.1:1")
    with pytest.raises(redlock.QuorumUnavailable) as caught:
        client.lock("x", ttl=0.5).acquire(wait=0)
    other = pickle.loads(pickle.dumps(caught.value))
    assert other.nodes == caught.value.nodes
    assert other.nodes[0].url == "redis://127.0.0.1:1"
    assert isinstance(other, ConnectionError)


def test_lock_has_no_truth_value_and_no_release(client: redlock.Redlock, name: str) -> None:
    lock = client.lock(name)
    with pytest.raises(TypeError, match="try_acquire"):
        bool(lock)
    assert not hasattr(lock, "release")
    with lock.acquire() as lease:
        assert bool(lease)


@pytest.mark.parametrize(
    ("method", "replacement"),
    [
        ("release", r"lease\.release\(\)"),
        ("do_release", r"lease\.release\(\)"),
        ("locked", r"lock\.inspect\(\)\.held"),
        ("owned", r"lease\.held"),
        ("extend", r"lease\.extend\(ttl="),
        ("reacquire", r"lease\.extend\(\)"),
    ],
)
def test_error_for_a_method_of_redis_py_names_the_replacement(
    client: redlock.Redlock, name: str, method: str, replacement: str
) -> None:
    lock = client.lock(name)
    with pytest.raises(AttributeError, match=f"has no '{method}'. Use .*{replacement}"):
        getattr(lock, method)()
    assert not hasattr(lock, method)
    with pytest.raises(
        AttributeError, match=r"^'redlock\.Lock' object has no attribute 'unknown'"
    ) as caught:
        lock.unknown  # type: ignore[attr-defined] # noqa: B018
    assert (caught.value.name, caught.value.obj) == ("unknown", lock)
    # A lone surrogate cannot be encoded as UTF-8.
    assert not hasattr(lock, "\ud800")
    assert not hasattr(lock.as_async(), "\ud800")


def test_asyncio_methods_need_a_running_loop(client: redlock.Redlock, name: str) -> None:
    with pytest.raises(RuntimeError, match="no running event loop"):
        client.lock(name).as_async().inspect().send(None)
