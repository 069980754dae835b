"""`Redlock.from_client`: the server settings of a redis-py client are adopted, refused or named."""

import inspect
import ssl
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio
import redis.asyncio.sentinel
import redis.sentinel
import redlock
from cross.clusters import Cluster
from cross.sentinel import SERVICE, Service
from redlock import Redlock

from tests.servers import Server, Silent
from tests.waiting import eventually

from . import certificates
from .test_tls import Secured

Call = Callable[..., Any]
HOST = "127.0.0.1"


def seen(server: Server, client: Redlock, call: Call) -> list[dict[str, str]]:
    """Returns the connection of a client that holds a lock on the server, without the one for notifications."""
    lease = call(client.lock("job", wait=1), "acquire")
    found = [each for each in server.client.client_list() if each["name"] != ""][:1]
    call(lease, "release")
    return found


def test_address_user_database_and_name_are_adopted(
    server: Server, library: Any, call: Call
) -> None:
    theirs = library(
        host=HOST, port=server.port, db=2, username="app", password="s3c/r:e@t", client_name="mine"
    )
    for given in (theirs, theirs.connection_pool):
        with Redlock.from_client(given) as client:
            assert client.nodes == [f"redis://127.0.0.1:{server.port}/2"]
            (one,) = seen(server, client, call)
            assert (one["name"], one["user"], one["db"]) == ("mine", "app", "2")


def test_client_created_from_a_url_is_adopted(server: Server, call: Call) -> None:
    url = f"redis://app:s3c%2Fr%3Ae%40t@127.0.0.1:{server.port}/3?client_name=mine"
    with Redlock.from_client(redis.Redis.from_url(url)) as client:
        (one,) = seen(server, client, call)
        assert (one["user"], one["db"]) == ("app", "3")


def test_options_override_the_clients_settings(server: Server, call: Call) -> None:
    theirs = redis.Redis(host=HOST, port=server.port, password="wrong", client_name="theirs")
    options: Any = {"client_name": "mine", "credentials": lambda: ("app", "s3c/r:e@t")}
    with Redlock.from_client(theirs, key_prefix="app:", **options) as client:
        assert client.lock("job").key == "app:job"
        (one,) = seen(server, client, call)
        assert (one["name"], one["user"]) == ("mine", "app")


def test_unix_socket_is_adopted(tmp_path: Path, call: Call) -> None:
    path = tmp_path / "a socket%41"
    server = Server(
        "--unixsocket", str(path), "--user", "app", "on", ">s3cret", "~*", "&*", "+@all"
    )
    theirs = redis.Redis(unix_socket_path=str(path), username="app", password="s3cret", db=1)
    try:
        with Redlock.from_client(theirs) as client:
            lease = call(client.lock("job", wait=1), "acquire")
            assert theirs.get("lock:job") == lease.token.encode()
            call(lease, "release")
    finally:
        theirs.close()
        server.close()


def test_tls_settings_are_adopted(tmp_path: Path, library: Any, call: Call) -> None:
    certificates.make(tmp_path)
    server = Secured(tmp_path, "yes")
    paths = {"ssl_certfile": "client.crt", "ssl_keyfile": "client.key"}
    files = {name: str(tmp_path / file) for name, file in paths.items()}
    trust = {"ssl_ca_certs": str(tmp_path / "ca.crt")}

    def locked(options: dict[str, Any], **ours: Any) -> bool:
        theirs = library(host=HOST, port=server.tls_port, ssl=True, **options)
        with Redlock.from_client(theirs, **ours) as client:
            return call(call(client.lock("job", wait=0.3), "acquire"), "release") is None

    try:
        assert locked(files | trust)
        assert locked(files | {"ssl_cert_reqs": "none"})
        assert locked(files | {"ssl_cert_reqs": ssl.CERT_NONE, "ssl_check_hostname": False})
        assert locked(files | {"ssl_cert_reqs": None})
        assert locked(files, tls_ca=tmp_path / "ca.crt")
        for untrusted, ours in (
            (files, {}),
            (files | {"ssl_cert_reqs": "optional"}, {}),
            (files | {"ssl_cert_reqs": "none"}, {"tls_verify": True}),
            (trust, {}),
        ):
            with pytest.raises(redlock.QuorumUnavailable):
                locked(untrusted, **ours)
    finally:
        server.close()


def test_list_of_clients_is_a_quorum(library: Any, call: Call) -> None:
    servers = [Server() for _ in range(3)]
    try:
        theirs = [library(host=HOST, port=each.port, db=1) for each in servers]
        with Redlock.from_client(theirs, restart_guard=0) as client:
            lease = call(client.lock("job", ttl=5, wait=1), "acquire")
            readers = [redis.Redis(port=each.port, db=1) for each in servers]
            # Two votes are a quorum, so the third may arrive after the grant.
            eventually(
                lambda: {reader.get("lock:job") for reader in readers} == {lease.token.encode()}
            )
            call(lease, "release")
        with pytest.raises(redlock.InvalidOption, match="twice"):
            Redlock.from_client([theirs[0], theirs[0]])
    finally:
        for each in servers:
            each.close()


@pytest.mark.limit(180)
def test_sentinel_service_is_adopted() -> None:
    with Service() as service:
        places = [(HOST, each.port) for each in service.sentinels]
        sentinel = redis.sentinel.Sentinel(places)
        asyncs = redis.asyncio.sentinel.Sentinel(places)
        given: list[tuple[Any, dict[str, str]]] = [(sentinel, {"service": SERVICE})]
        given += [(asyncs, {"service": SERVICE}), (sentinel.master_for(SERVICE), {})]
        given += [(asyncs.master_for(SERVICE, db=0), {})]
        for theirs, options in given:
            with Redlock.from_client(theirs, **options) as client:
                lease = client.lock("job", wait=2).acquire()
                assert service.primary.get(lease.key) == lease.token
                lease.release()


@pytest.mark.limit(180)
def test_cluster_client_is_adopted() -> None:
    with Cluster() as cluster:
        port = cluster.members[0].port
        sync = redis.RedisCluster(host=HOST, port=port)
        for theirs in (sync, redis.asyncio.RedisCluster(host=HOST, port=port)):
            with Redlock.from_client(theirs) as client:
                assert client.nodes[0].startswith("redis+cluster://127.0.0.1:")
                lease = client.lock("job", wait=2).acquire()
                assert sync.get(lease.key) == lease.token.encode()
                lease.release()
        sync.close()


def test_settings_of_sentinels_and_clusters_are_adopted() -> None:
    secured = {"ssl": True, "password": "p", "socket_timeout": 2.0}
    theirs = redis.asyncio.RedisCluster(host="h", **secured)
    assert Redlock.from_client(theirs).nodes == ["rediss+cluster://h:6379"]
    own = {"password": "x"}
    sentinel = redis.sentinel.Sentinel([("a", 1), ("b", 2)], sentinel_kwargs=own, db=3)
    service = Redlock.from_client(sentinel, service="svc")
    assert service.nodes == ["redis+sentinel://a:1,b:2/svc/3"]


def test_explicit_timeouts_are_adopted(library: Any) -> None:
    assert Redlock.from_client(library()).lock("job", ttl=2).ttl == 2
    with pytest.raises(redlock.InvalidOption, match=r"node_timeout must be .*\(got 3 s\)"):
        Redlock.from_client(library(socket_timeout=3.0)).lock("job", ttl=2)
    ours = Redlock.from_client(library(socket_timeout=3.0), node_timeout=0.5)
    assert ours.lock("job", ttl=2).ttl == 2


def replicas() -> Any:
    return redis.sentinel.Sentinel([("a", 1)]).slave_for("svc")


class Connection(redis.Connection):
    pass


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: "redis://a", "of type str"),
    (lambda: [redis.Redis(), None], "of type NoneType"),
    (list, "no client is given"),
    (lambda: redis.sentinel.Sentinel([("a", 1)]), "service="),
    (lambda: redis.sentinel.Sentinel([("a", 1)], min_other_sentinels=1).master_for("s"), "min_oth"),
    (replicas, "primary"),
    (lambda: redis.ConnectionPool(connection_class=Connection), "Connection, which is not redis-"),
    (
        lambda: redis.Redis(ssl=True, ssl_check_hostname=False),
        "ssl_check_hostname.*tls_server_name",
    ),
    (lambda: redis.Redis(ssl=True, ssl_ca_data="s3cret"), "ssl_ca_data.*tls_ca="),
    (lambda: redis.Redis(ssl=True, ssl_ca_path="s3cret"), "ssl_ca_path.*tls_ca="),
    (lambda: redis.Redis(ssl=True, ssl_password="s3cret"), "ssl_password.*tls_key="),
    (lambda: redis.Redis(ssl=True, ssl_ciphers="s3cret"), "ssl_ciphers"),
    (lambda: redis.Redis(ssl=True, ssl_min_version=ssl.TLSVersion.TLSv1_3), "ssl_min_version"),
    (lambda: redis.Redis(redis_connect_func=print), "redis_connect_func"),
]


@pytest.mark.parametrize(("make", "words"), REFUSED)
def test_settings_without_a_counterpart_are_refused(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(redlock.InvalidOption, match=words) as caught:
        Redlock.from_client(make())
    assert "s3cret" not in str(caught.value)


def test_options_that_an_error_suggests_are_accepted(tmp_path: Path) -> None:
    certificates.make(tmp_path)
    ca = tmp_path / "ca.crt"
    Redlock.from_client(redis.Redis(ssl=True, ssl_ca_data="x"), tls_ca=ca)
    Redlock.from_client(redis.Redis(ssl=True, ssl_check_hostname=False), tls_server_name="a.b")
    Redlock.from_client(redis.Redis(ssl=True, ssl_min_version=ssl.TLSVersion.TLSv1_2))
    with pytest.raises(redlock.InvalidOption, match="service is given"):
        Redlock.from_client(redis.Redis(), service="x")


def test_irrelevant_settings_are_ignored_silently(library: Any) -> None:
    theirs = library(decode_responses=True, max_connections=3, health_check_interval=5, protocol=3)
    assert Redlock.from_client(theirs).nodes == ["redis://localhost:6379"]


def test_unknown_settings_are_reported_once() -> None:
    pool = redis.ConnectionPool(new_setting="s3cret", other=0, third=None, zone=[1])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        Redlock.from_client([redis.Redis(connection_pool=pool), redis.Redis(port=1)])
    (one,) = said
    assert str(one.message).endswith("are ignored: new_setting, zone")
    assert one.filename == __file__


def test_from_client_does_not_connect(silent: list[Silent]) -> None:
    for node in silent:
        Redlock.from_client(redis.Redis(host=HOST, port=node.port)).lock("job")


def test_from_client_does_not_import_redis() -> None:
    program = """
import sys, redlock
try:
    redlock.Redlock.from_client(object())
except redlock.InvalidOption as error:
    assert "of type object" in str(error)
    assert not [name for name in sys.modules if name.partition(".")[0] == "redis"]
    print("none")
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60)
    assert ran.stdout == b"none\n", ran.stderr


def test_from_client_has_every_option_of_a_client() -> None:
    ours = {*inspect.signature(Redlock).parameters} - {"nodes", "args", "kwargs"}
    given = {*inspect.signature(Redlock.from_client).parameters} - {"client", "service"}
    assert given == ours


def test_service_must_be_a_name_and_password_may_be_a_number() -> None:
    watcher = redis.Sentinel([("127.0.0.1", 1)])
    with pytest.raises(redlock.InvalidOption, match="service"):
        redlock.Redlock.from_client(watcher, service="orders/3")
    assert redlock.Redlock.from_client(redis.Redis(password=12345)).nodes


def test_pool_with_custom_connections_is_refused() -> None:
    class Pool(redis.ConnectionPool):
        def make_connection(self) -> Any:
            return super().make_connection()

    with pytest.raises(redlock.InvalidOption, match="Pool"):
        redlock.Redlock.from_client(Pool())
