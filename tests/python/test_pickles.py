"""Pickles and copies of locks, clients and snapshots. A restored one equals the original, also in another process.

Locks and clients consist of names and options only. A lease cannot be pickled or copied.
"""

import copy
import gc
import multiprocessing
import pickle
import re
from typing import Any

import pytest
import redlock

from tests.servers import Server

from .processes import output_of


def round_trip(thing: Any, protocol: int = pickle.HIGHEST_PROTOCOL) -> Any:
    return pickle.loads(pickle.dumps(thing, protocol))


def report_name(user: str) -> str:
    return f"report:{user}"


def get_credentials() -> tuple[str, str]:
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
        # The pickle names its client. This process has that client, so both locks use it.
        assert [each.key for each in client.leases()] == [lease.key]


def test_unpickled_locks_of_one_client_share_a_client(redis_server: Server, name: str) -> None:
    client = redlock.Redlock(redis_server.url, key_prefix="p:", client_name=f"pickled-{name}")
    locks = pickle.dumps([client.lock(f"{name}-{number}") for number in range(5)])
    identity = re.search(rb"[0-9a-f]{32}", locks)
    assert identity is not None
    # Makes the identity of the client unknown, as it is in another process.
    locks = locks.replace(identity[0], identity[0][::-1])
    others = pickle.loads(locks)
    leases = [lock.acquire() for lock in others]
    connections = [
        each for each in redis_server.client.client_list() if each["name"] == f"pickled-{name}"
    ]
    # One for commands, and one for notifications. Five separate clients would need at least five.
    assert 1 <= len(connections) <= 2
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
    unknown_identity = "0" * 32
    other = function(unknown_identity, nodes, given)
    assert other is not client
    assert (other.nodes, other.lock("a").key) == (client.nodes, "p:a")
    assert other.__reduce__()[1][1:] == (nodes, given)
    for text in (repr(client), repr(other), str(other.nodes), repr(other.lock("a"))):
        assert "secret" not in text


def test_credentials_callback_is_pickled_by_reference(redis_server: Server) -> None:
    client = redlock.Redlock(redis_server.url, credentials=get_credentials)
    assert client.__reduce__()[1][2] == {"credentials": get_credentials}  # type: ignore[index]
    assert round_trip(client).nodes == client.nodes
    lock = round_trip(client.lock("job"))
    del client
    gc.collect()
    # The client was collected. The lock still refers to the callback.
    assert lock.__reduce__()[1][0].__reduce__()[1][2] == {"credentials": get_credentials}


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
    assert output_of(code) == "there:job 5.0 False\n"


def test_decorating_lock_can_be_pickled(client: redlock.Redlock) -> None:
    by_name = round_trip(client.lock(report_name, wait=0, default="busy"))

    def held(user: str) -> list[str]:
        return [lease.key for lease in client.leases()]

    assert by_name(held)("eve") == ["lock:report:eve"]
    with client.lock("report:eve"):
        assert by_name(held)("eve") == "busy"
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(client.lock(lambda user: "job"))


def report_refusal(lock: redlock.Lock, results: Any) -> None:
    results.put(lock.try_acquire() is None)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_lock_can_be_sent_to_another_process(redis_server: Server, name: str, method: str) -> None:
    context = multiprocessing.get_context(method)
    lock = redlock.Redlock(redis_server.url).lock(name)
    results = context.Queue()
    with lock:
        child = context.Process(target=report_refusal, args=(lock, results))
        child.start()
        assert results.get(timeout=20) is True
        child.join(20)
    assert child.exitcode == 0


def test_pickle_with_an_unknown_option_cannot_be_restored() -> None:
    function, (identity, nodes, _) = redlock.Redlock("memory://").__reduce__()  # type: ignore[misc]
    with pytest.raises(redlock.InvalidOption, match="the option future_option, which this version"):
        # With its real identity, the call would return the existing client.
        function(identity[::-1], nodes, {"future_option": 1.0})


def test_lease_cannot_be_pickled(client: redlock.Redlock, name: str) -> None:
    with client.lock(name).acquire() as lease, pytest.raises(TypeError, match="pickle"):
        pickle.dumps(lease)


@pytest.mark.parametrize("make_copy", [copy.copy, copy.deepcopy, round_trip])
def test_error_for_a_copied_lease_names_attach(
    client: redlock.Redlock, name: str, make_copy: Any
) -> None:
    with client.lock(name) as lease:
        with pytest.raises(TypeError, match=r"lease\.token.*lock\.attach\(token\)") as caught:
            make_copy(lease)
        assert lease.token not in str(caught.value)


def snapshots(client: redlock.Redlock, name: str) -> list[Any]:
    with client.lock(name, label="me"):
        found = client.lock(name).inspect()
    ping = client.ping()
    return [found, found.nodes[0], ping, ping.nodes[0], client.stats()]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_unpickled_snapshot_has_the_same_values(
    client: redlock.Redlock, name: str, protocol: int
) -> None:
    for snapshot in snapshots(client, name):
        other = round_trip(snapshot, protocol)
        assert type(other) is type(snapshot)
        assert repr(other) == repr(snapshot)


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy])
def test_copy_of_a_snapshot_is_itself(client: redlock.Redlock, name: str, way: Any) -> None:
    for snapshot in snapshots(client, name):
        assert way(snapshot) is snapshot


def test_pickle_of_a_snapshot_of_another_version_is_refused() -> None:
    make, (kind, fields) = redlock.Redlock("memory://").stats().__reduce__()
    del fields["granted"]
    with pytest.raises(redlock.InvalidOption, match=r"granted .* made by another one"):
        make(kind, fields)
    with pytest.raises(redlock.InvalidOption, match=r"Later .* made by another one"):
        make("Later", {})
