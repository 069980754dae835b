"""Servers that announce addresses at which this client cannot reach them, and where it reaches them instead."""

import gc
import pickle
import threading
import weakref
from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import Any

import pytest
import redis
import redis.sentinel
import redlock
from cross.clusters import SLOTS, Member

from tests.ports import free_port
from tests.waiting import eventually

Call = Callable[..., Any]


class Nat:
    """A server that is a whole cluster and announces another port, at which nothing listens."""

    def __init__(self, server: Member) -> None:
        self.server, self.announced = server, free_port()
        server.command("CONFIG", "SET", "cluster-announce-port", self.announced)
        server.command("CLUSTER", "ADDSLOTS", *range(SLOTS))
        eventually(lambda: "cluster_state:ok" in server.command("CLUSTER", "INFO"))
        self.url = f"redis+cluster://127.0.0.1:{server.port}"
        self.table = {f"127.0.0.1:{self.announced}": f"127.0.0.1:{server.port}"}


@pytest.fixture(scope="module")
def nat() -> Iterator[Nat]:
    with Member() as server:
        yield Nat(server)


def reach(nat: Nat, host: str, port: int) -> tuple[str, int]:
    return host, nat.server.port if port == nat.announced else port


def test_mapping_leads_to_the_server(nat: Nat, call: Call) -> None:
    for table in (nat.table, MappingProxyType(nat.table)):
        with redlock.Redlock(nat.url, address_map=table) as client:
            call(call(client.lock("job", wait=5), "acquire"), "release")


def test_function_runs_on_a_separate_thread(nat: Nat, call: Call) -> None:
    asked = []

    def ask(host: str, port: int) -> tuple[str, int]:
        asked.append((host, port, threading.get_ident()))
        return reach(nat, host, port)

    with redlock.Redlock(nat.url, address_map=ask) as client:
        assert not asked
        call(call(client.lock("job", wait=5), "acquire"), "release")
    assert asked[0][:2] == ("127.0.0.1", nat.announced)
    assert asked[0][2] != threading.get_ident()


def test_error_names_the_announcing_server_and_the_option(nat: Nat) -> None:
    with redlock.Redlock(nat.url) as client, pytest.raises(redlock.QuorumUnavailable) as caught:
        client.lock("job", wait=0.3).acquire()
    said = (
        f"127.0.0.1:{nat.announced} was announced by 127.0.0.1:{nat.server.port}; set address_map"
    )
    assert said in str(caught.value)


def failing(host: str, port: int) -> tuple[str, int]:
    raise KeyError("no such\nhost")


async def coroutine() -> None:
    pass


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (failing, "address_map raised KeyError: 'no such\\nhost'"),
        (lambda host, port: None, "returned a value of type NoneType: it must return (host, port)"),
        (lambda host, port: "127.0.0.1:1", "returned a value of type str"),
        (lambda host, port: (host,), "returned a value of type tuple"),
        (lambda host, port: (host, "1"), "returned (str, str)"),
        (lambda host, port: (host, 70000), "returned the port 70000"),
        (lambda host, port: ("redis://:s3cret@h", 1), "which is not the name or address of a host"),
        (lambda host, port: coroutine(), "returned an awaitable"),
    ],
)
def test_wrong_result_is_a_clear_error(nat: Nat, function: Any, said: str) -> None:
    with (
        redlock.Redlock(nat.url, address_map=function) as client,
        pytest.raises(redlock.QuorumUnavailable) as caught,
    ):
        client.lock("job", wait=0.3).acquire()
    text = str(caught.value)
    assert said in text
    assert f"(for 127.0.0.1:{nat.announced})" in text
    assert "s3cret" not in text


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("127.0.0.1:1", "of type str: it must be a dict"),
        ({"h:1": 1}, "a value of type int: each key and value must be a str"),
        ({("h", 1): ("h", 2)}, "a value of type tuple"),
        ({"h": "h:1"}, 'contains "h", which is not host:port'),
        ({"h:1": "redis://:s3cret@h"}, "may contain a password"),
        (coroutine, "a coroutine function"),
    ],
)
def test_wrong_option_is_refused_at_once(value: Any, said: str) -> None:
    with pytest.raises(redlock.InvalidOption) as caught:
        redlock.Redlock("redis+cluster://h", address_map=value)
    assert said in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_map_without_announced_addresses_is_refused() -> None:
    with pytest.raises(redlock.InvalidOption, match=r"address_map is set, but only .*cluster"):
        redlock.Redlock("redis://h", address_map={"h:1": "h:2"})


def test_client_with_a_function_that_refers_to_it_is_collected(nat: Nat) -> None:
    class Owner:
        client: redlock.Redlock

        def ask(self, host: str, port: int) -> tuple[str, int]:
            return reach(nat, host, port)

    owner = Owner()
    owner.client = redlock.Redlock(nat.url, address_map=owner.ask)
    owner.client.lock("job", wait=5).acquire().release()
    gone = weakref.ref(owner)
    del owner
    gc.collect()
    assert gone() is None


def module_level(host: str, port: int) -> tuple[str, int]:
    return host, port


def test_pickle_has_the_map_and_the_credentials() -> None:
    import subprocess
    import sys

    for given in ({"h:1": "h:2"}, len):
        client = redlock.Redlock("redis+cluster://h", address_map=given, credentials=str)
        code = "import pickle, sys; print(pickle.load(sys.stdin.buffer).nodes)"
        done = subprocess.run(
            [sys.executable, "-c", code],
            input=pickle.dumps(client),
            capture_output=True,
            check=True,
            timeout=30,
        )
        assert done.stdout.strip() == b"['redis+cluster://h:6379']"


def test_map_of_a_cluster_client_is_adopted(nat: Nat, call: Call) -> None:
    theirs = redis.RedisCluster(
        host="127.0.0.1",
        port=nat.server.port,
        address_remap=lambda place: reach(nat, *place),
    )
    try:
        with redlock.Redlock.from_client(theirs) as client:
            call(call(client.lock("job", wait=5), "acquire"), "release")
        other = redis.asyncio.RedisCluster(
            host="127.0.0.1", port=nat.server.port, address_remap=lambda place: place
        )
        with pytest.raises(redlock.InvalidOption, match="different address_remap"):
            redlock.Redlock.from_client([theirs, other])
        with redlock.Redlock.from_client(other, address_map=nat.table) as client:
            client.lock("job", wait=5).acquire().release()
    finally:
        theirs.close()


def test_address_and_tls_of_sentinels_are_adopted() -> None:
    def nodes(tls: bool, sentinel_tls: bool) -> Any:
        own = {"ssl": True} if sentinel_tls else {}
        sentinel = redis.sentinel.Sentinel([("a", 1)], sentinel_kwargs=own, ssl=tls)
        return redlock.Redlock.from_client(sentinel, service="s").nodes

    assert nodes(False, True) == ["redis+sentinel://a:1/s"]
    assert nodes(True, False) == ["rediss+sentinel://a:1/s"]
