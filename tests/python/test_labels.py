"""Labels of holders: types, processes, pickles, and redis-py. `conformance/test_labels.py` has the rest."""

import os
import pickle
import re
import socket
from collections.abc import Iterator
from typing import Any

import pytest
import redis
import redlock

from tests.servers import Server

DIGITS = "0123456789abcdef" * 2


@pytest.fixture
def bare(redis_server: Server) -> Iterator[redlock.Redlock]:
    """A client whose keys are those of other libraries."""
    with redlock.Redlock(redis_server.url, key_prefix="", label="web-3") as client:
        yield client


def refused(client: redlock.Redlock, name: str) -> redlock.LockTimeout:
    with pytest.raises(redlock.LockTimeout) as caught:
        client.lock(name, wait=0).acquire()
    return caught.value


def test_reprs_name_the_holder(client: redlock.Redlock, name: str) -> None:
    with client.lock(name, label="web-3"):
        found = client.lock(name).inspect()
    for shown in (found, found.nodes[0]):
        assert "label='web-3'" in repr(shown)


@pytest.mark.parametrize("label", [3, 1.5, b"web-3", ["web-3"], object()])
def test_a_label_of_another_type_is_refused(client: redlock.Redlock, label: Any) -> None:
    with pytest.raises(
        redlock.InvalidOption, match=r"label is .*: it must be a str, True or False"
    ):
        client.lock("job", label=label)


def test_true_is_the_label_of_the_process_and_false_is_none() -> None:
    client = redlock.Redlock("memory://", label=True)
    with client.lock("job") as lease:
        label = lease.token[33:]
        assert label.endswith(f"-{os.getpid()}")
        assert label.startswith(re.sub("[^A-Za-z0-9._@-]", "-", socket.gethostname())[:20])
    with client.lock("job", label=False) as lease:
        assert len(lease.token) == 32
    with client.lock("job", label="lock"):
        found = client.lock("job").inspect()
        assert "label='lock'" in repr(found)
        assert "label='lock'" in repr(found.nodes[0])


def test_a_forked_child_has_its_own_label() -> None:
    client = redlock.Redlock("memory://", label=True)
    lock = client.lock("job")
    with lock:
        pass
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with lock as lease:
                os.write(writer, lease.token[33:].encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as written:
        assert written.read().endswith(f"-{child}")
    os.waitpid(child, 0)


def test_a_pickle_keeps_the_label(redis_server: Server, name: str) -> None:
    client = redlock.Redlock(redis_server.url, label="client")
    for label, suffix in [(None, ":client"), ("web-3", ":web-3"), (False, "")]:
        lock = pickle.loads(pickle.dumps(client.lock(name, label=label)))
        with lock as lease:
            assert lease.token[32:] == suffix


def test_redis_py_respects_a_labelled_value(
    bare: redlock.Redlock, redis_server: Server, name: str
) -> None:
    theirs = redis.Redis(host="127.0.0.1", port=redis_server.port)
    lock = theirs.lock(name, timeout=20, blocking=False)
    with bare.lock(name) as lease:
        assert not lock.acquire()
        assert lock.locked()
        token = lease.token
    # redis-py takes over the whole value, extends it and releases it.
    with_label = bare.lock(name).acquire()
    lock.local.token = with_label.token.encode()
    assert lock.owned()
    assert lock.extend(10)
    assert with_label.detach()
    lock.release()
    assert theirs.get(name) is None
    assert token != with_label.token


def test_a_labelled_value_of_redis_py_is_a_holder(
    bare: redlock.Redlock, redis_server: Server, name: str
) -> None:
    theirs = redis.Redis(host="127.0.0.1", port=redis_server.port)
    lock = theirs.lock(name, timeout=20, blocking=False)
    assert lock.acquire(token=f"{DIGITS}:theirs")
    assert refused(bare, name).holder == "theirs"
    attached = bare.attach(name, f"{DIGITS}:theirs")
    assert attached.token == f"{DIGITS}:theirs"
    attached.release()
    assert not lock.owned()
    assert lock.acquire()
    assert refused(bare, name).holder is None
    assert bare.force_release(name)
