"""Locks and clients are only descriptions. They can be copied and pickled, and are equal when restored, also in another
process.
"""

import copy
import gc
import multiprocessing
import pickle
import re
from typing import Any

import pytest
import redlock

from .servers import Server
from .test_default_client import output


def round_trip(thing: Any, protocol: int = pickle.HIGHEST_PROTOCOL) -> Any:
    return pickle.loads(pickle.dumps(thing, protocol))


def named(user: str) -> str:
    return f"report:{user}"


def ask() -> tuple[str, str]:
    return ("default", "secret")


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_unpickled_lock_equals_the_original(
    client: redlock.Redlock, name: str, protocol: int
) -> None:
    lock = client.lock(
        [name, f"{name}-b"], ttl=5, wait=0.5, max_hold=60, renew=False, fencing=False
    )
    other = round_trip(lock, protocol)
    assert type(other) is redlock.Lock
    assert (other.names, other.keys, other.ttl, other.wait) == (lock.names, lock.keys, 5.0, 0.5)
    with other.acquire() as lease:
        assert lock.try_acquire() is None
        # It is the same client, which is known here, so its leases are the same.
        assert [each.key for each in client.leases()] == [lease.key]


def test_unpickled_locks_of_one_client_share_a_client(redis_server: Server, name: str) -> None:
    client = redlock.Redlock(redis_server.url, key_prefix="p:", client_name=f"pickled-{name}")
    locks = pickle.dumps([client.lock(f"{name}-{number}") for number in range(5)])
    identity = re.search(rb"[0-9a-f]{32}", locks)
    assert identity is not None
    # As in another process, where the client is unknown.
    locks = locks.replace(identity[0], identity[0][::-1])
    others = pickle.loads(locks)
    leases = [lock.acquire() for lock in others]
    called = [
        each for each in redis_server.client.client_list() if each["name"] == f"pickled-{name}"
    ]
    # One connection, and one for notifications. Separate clients would need five and more.
    assert 1 <= len(called) <= 2
    assert client.leases() == []
    assert sorted(lease.key for lease in leases) == [f"p:{name}-{number}" for number in range(5)]
    for lease in leases:
        lease.release()


def test_unpickled_client_has_its_options_and_password() -> None:
    url = "redis://user:secret@127.0.0.1:6379/1"
    options: dict[str, Any] = {
        "key_prefix": "p:",
        "node_timeout": 0.5,
        "min_replicas": 2,
        "fsync": True,
    }
    client = redlock.Redlock([url], **options)
    function, (_, nodes, given) = client.__reduce__()  # type: ignore[misc]
    assert (nodes, given) == ([url], options)
    other = function("0" * 32, nodes, given)
    assert other is not client
    assert (other.nodes, other.lock("a").key) == (client.nodes, "p:a")
    assert other.__reduce__()[1][1:] == (nodes, given)
    for text in (repr(client), repr(other), str(other.nodes), repr(other.lock("a"))):
        assert "secret" not in text


def test_credentials_callback_is_pickled_by_reference(redis_server: Server) -> None:
    client = redlock.Redlock(redis_server.url, credentials=ask)
    assert client.__reduce__()[1][2] == {"credentials": ask}  # type: ignore[index]
    assert round_trip(client).nodes == client.nodes
    lock = round_trip(client.lock("job"))
    del client
    gc.collect()
    # Only this lock refers to the function now.
    assert lock.__reduce__()[1][0].__reduce__()[1][2] == {"credentials": ask}


def test_copy_returns_the_same_object(client: redlock.Redlock, name: str) -> None:
    lock = client.lock(name)
    for thing in (client, lock):
        assert copy.copy(thing) is thing
        assert copy.deepcopy([thing]) == [thing]


def test_unpickled_lock_uses_the_local_default_client() -> None:
    code = """
import pickle, redlock
redlock.configure("memory://here", key_prefix="here:")
text = pickle.dumps(redlock.lock("job", ttl=5))
redlock.configure("memory://there", key_prefix="there:", replace=True)
lock = pickle.loads(text)
print(lock.key, lock.ttl, b"memory" in text)
"""
    assert output(code) == "there:job 5.0 False\n"


def test_decorating_lock_can_be_pickled(client: redlock.Redlock) -> None:
    by_name = round_trip(client.lock(named, wait=0, default="busy"))

    def held(user: str) -> list[str]:
        return [lease.key for lease in client.leases()]

    assert by_name(held)("eve") == ["lock:report:eve"]
    with client.lock("report:eve"):
        assert by_name(held)("eve") == "busy"
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(client.lock(lambda user: "job"))


def hold(lock: redlock.Lock, results: Any) -> None:
    results.put(lock.try_acquire() is None)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_lock_can_be_sent_to_another_process(redis_server: Server, name: str, method: str) -> None:
    context = multiprocessing.get_context(method)
    lock = redlock.Redlock(redis_server.url).lock(name)
    results = context.Queue()
    with lock:
        child = context.Process(target=hold, args=(lock, results))
        child.start()
        assert results.get(timeout=20) is True
        child.join(20)
    assert child.exitcode == 0


def test_an_option_that_this_version_lacks_is_refused() -> None:
    function, (identity, nodes, _) = redlock.Redlock("memory://").__reduce__()  # type: ignore[misc]
    with pytest.raises(redlock.InvalidOption, match="the option nap, which this version"):
        function(identity[::-1], nodes, {"nap": 1.0})


def test_lease_cannot_be_pickled(client: redlock.Redlock, name: str) -> None:
    with client.lock(name).acquire() as lease, pytest.raises(TypeError, match="pickle"):
        pickle.dumps(lease)


def test_attributes_of_a_lock_can_be_read(client: redlock.Redlock, name: str) -> None:
    lock = client.lock(name)
    assert (lock.name, lock.ttl, lock.wait) == (name, 10.0, None)
    lock = redlock.lock(["a", "b"], ttl=0.5, wait=0)
    assert (lock.name, lock.ttl, lock.wait) == ("a, b", 0.5, 0.0)
    assert redlock.lock(named).name == ""
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*", redlock.__version__)


def test_repr_of_an_inspection_shows_its_fields(redis_client: redlock.Redlock, name: str) -> None:
    found = redis_client.lock(name).inspect()
    (url,) = redis_client.nodes
    assert repr(found) == (
        f"Inspection(held=False, remaining=None, nodes=[NodeInspection(url='{url}', key='lock:{name}', "
        "state='free', remaining=None, token=None, error=None)])"
    )
    with redis_client.lock(name):
        found = redis_client.lock(name).inspect()
    assert f"Inspection(held=True, remaining={found.remaining}, nodes=[" in repr(found)
    assert f"token='{found.nodes[0].token}'" in repr(found)


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, round_trip])
def test_error_for_a_copied_lease_names_attach(
    client: redlock.Redlock, name: str, way: Any
) -> None:
    with client.lock(name) as lease:
        with pytest.raises(TypeError, match=r"lease\.token.*lock\.attach\(token\)") as caught:
            way(lease)
        assert lease.token not in str(caught.value)
