"""aioredlock 0.7: tests/ut/test_redis.py, test_sentinel.py and test_utility.py."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import redlock

from tests.ports import free_port
from tests.servers import Server
from tests.waiting import eventually

from .cases import Source

Call = Callable[..., Any]
ONE, MORE = "tests/ut/test_redis.py::TestInstance", "tests/ut/test_redis.py::TestRedis"
SENTINEL, UTILITY = "tests/ut/test_sentinel.py", "tests/ut/test_utility.py"
THEIRS = Source("aioredlock", {ONE: 12, MORE: 8, SENTINEL: 2, UTILITY: 6})
asks = THEIRS.asks
#: The behaviours of a node: it grants, refuses, or is down.
OK, HELD, AWAY = "ok", "held", "away"
GOOD = [(OK, OK, OK), (OK, OK, HELD), (OK, OK, AWAY)]
BAD = [
    ((OK, HELD, AWAY), redlock.LockTimeout),
    ((HELD, HELD, AWAY), redlock.LockTimeout),
    ((HELD, HELD, OK), redlock.LockTimeout),
    ((HELD, AWAY, AWAY), redlock.QuorumUnavailable),
    ((AWAY, AWAY, AWAY), redlock.QuorumUnavailable),
]


def over(servers: list[Server], nodes: tuple[str, ...], name: str) -> redlock.Redlock:
    """Creates a client for nodes with these behaviours."""
    urls = []
    for server, does in zip(servers, nodes, strict=True):
        urls.append(f"redis://127.0.0.1:{free_port()}" if does == AWAY else server.url)
        if does == HELD:
            server.client.set(name, "another", px=60_000)
    return redlock.Redlock(urls, key_prefix="", restart_guard=0)


@asks("clients", ONE, MORE)
def test_initialization(silent: list[Any]) -> None:
    urls = [node.url for node in silent]
    assert redlock.Redlock(urls).nodes == urls


@asks("clients", ONE)
@pytest.mark.parametrize("tail", ["", "/0"])
def test_connect_pool_not_created(
    redis_server: Server, r: Any, name: str, call: Call, tail: str
) -> None:
    client = redlock.Redlock(redis_server.url + tail, client_name=name)
    assert not any(each["name"] == name for each in r.client_list())
    call(call(client.lock(name), "acquire"), "release")
    assert any(each["name"] == name for each in r.client_list())
    client.close()
    with pytest.raises(redlock.InvalidOption, match="parameter encoding"):
        redlock.Redlock("redis://host:6379/0?encoding=utf-8")


@asks("pool_sizes", ONE)
def test_connect_pool_not_created_with_minsize_and_maxsize(redis_server: Server) -> None:
    options: Any = {"maxsize": 5}
    with pytest.raises(redlock.InvalidOption, match="has no option 'maxsize'"):
        redlock.Redlock(redis_server.url, **options)


@asks("pool_sizes", ONE)
def test_connect_pool_already_created(redis_server: Server, r: Any, name: str, call: Call) -> None:
    with redlock.Redlock(redis_server.url, client_name=name) as client:
        for _ in range(20):
            call(call(client.lock(name), "acquire"), "release")
        assert sum(each["name"] == name for each in r.client_list()) <= 2


@asks("clients", ONE)
def test_connect_pool_aioredis_instance(r: Any, name: str, call: Call) -> None:
    with redlock.Redlock.from_client(r, key_prefix="") as client:
        call(call(client.lock(name), "acquire"), "release")


SERVICE = "redis+sentinel://127.0.0.1:26379/leader"


@asks("clients", ONE)
def test_connect_pool_aioredis_instance_with_sentinel() -> None:
    from redis.sentinel import Sentinel

    sentinel = Sentinel([("127.0.0.1", 26379)])
    assert redlock.Redlock.from_client(sentinel, service="leader").nodes == [SERVICE]


@asks("ttl", ONE)
@asks("minority", MORE)
def test_lock(trio_of_nodes: list[Server], name: str, call: Call) -> None:
    for how_many in (1, 2):
        servers = trio_of_nodes[:how_many]
        with over(servers, (OK,) * how_many, name) as client:
            lease = call(client.lock(name, ttl=10), "acquire")
            for server in servers:
                assert server.client.get(name) == lease.token
                assert 9000 < server.client.pttl(name) <= 10000
            call(lease, "release")
            eventually(lambda: not any(server.client.exists(name) for server in servers))  # noqa: B023


def has_time_left(ours: redlock.Redlock, name: str, call: Call) -> None:
    lease = call(ours.lock(name, ttl=10), "acquire")
    assert 9 < lease.remaining < 10
    assert call(ours.lock(name), "inspect").remaining > 9
    call(lease, "release")


@asks("owned", ONE)
def test_get_lock_ttl(ours: redlock.Redlock, name: str, call: Call) -> None:
    has_time_left(ours, name, call)


@asks("owned", MORE)
def test_get_lock(ours: redlock.Redlock, name: str, call: Call) -> None:
    has_time_left(ours, name, call)


@asks("pool_sizes", ONE)
def test_lock_sleep(redis_server: Server, r: Any, name: str) -> None:
    async def main() -> None:
        async with redlock.AsyncRedlock(redis_server.url, client_name=name) as client:
            locks = [client.lock(f"{name}-{which}") for which in range(20)]
            leases = await asyncio.gather(*(lock.acquire() for lock in locks))
            assert sum(each["name"] == name for each in r.client_list()) <= 2
            assert len({lease.key for lease in leases}) == 20
            assert await client.release_all() == 20

    asyncio.run(main())


@asks("scripts", ONE)
def test_lock_without_scripts(ours: redlock.Redlock, r: Any, name: str, call: Call) -> None:
    lease = call(ours.lock(name), "acquire")
    r.script_flush()
    call(lease, "extend", 60)
    r.script_flush()
    assert call(ours.lock(name), "try_acquire") is None
    r.script_flush()
    call(lease, "release")
    assert r.get(name) is None


@asks("writes", ONE)
def test_unset_lock(ours: redlock.Redlock, r: Any, name: str, call: Call) -> None:
    call(call(ours.lock(name), "acquire"), "release")
    assert r.get(name) is None


@asks("locked", ONE, MORE)
@pytest.mark.parametrize("held", [True, False])
def test_is_locked(trio_of_nodes: list[Server], name: str, call: Call, held: bool) -> None:
    does = HELD if held else OK
    for how_many in (1, 2):
        with over(trio_of_nodes[:how_many], (does,) * how_many, name) as client:
            assert call(client.lock(name), "inspect").held is held


@asks("minority", MORE)
def test_lock_one_of_two_instances_failed(
    trio_of_nodes: list[Server], name: str, call: Call
) -> None:
    with over(trio_of_nodes[:2], (HELD, OK), name) as client, pytest.raises(redlock.LockTimeout):
        call(client.lock(name), "acquire", wait=0)
    assert trio_of_nodes[0].client.get(name) == "another"


@asks("minority", MORE)
@pytest.mark.parametrize("nodes", GOOD)
def test_three_instances_combination(
    trio_of_nodes: list[Server], name: str, call: Call, nodes: tuple[str, ...]
) -> None:
    with over(trio_of_nodes, nodes, name) as client:
        lease = call(client.lock(name), "acquire", wait=0)
        call(lease, "extend")
        call(lease, "release")


@asks("node_raises", MORE)
@pytest.mark.parametrize(("nodes", "error"), BAD)
def test_three_instances_combination_errors(
    trio_of_nodes: list[Server],
    name: str,
    call: Call,
    nodes: tuple[str, ...],
    error: type[redlock.LockError],
) -> None:
    # It ends as soon as a quorum is impossible. On a busy machine a refusal may arrive before a second error.
    first = (redlock.LockTimeout,) if HELD in nodes else ()
    with over(trio_of_nodes, nodes, name) as client:
        with pytest.raises((error, *first)) as caught:
            call(client.lock(name), "acquire", wait=0)
        faults = [node for node in caught.value.nodes if node.state == "fault"]
        if isinstance(caught.value, redlock.QuorumUnavailable):
            assert 2 <= len(faults) <= nodes.count(AWAY)
            assert all(node.error for node in faults)


@asks("closed", MORE)
def test_clear_connections(redis_server: Server, name: str, call: Call) -> None:
    client = redlock.Redlock(redis_server.url)
    call(call(client.lock(name), "acquire"), "release")
    for _ in range(2):
        client.close()
    with pytest.raises(redlock.ClientClosed):
        call(client.lock(name), "acquire")


@asks("sentinel", SENTINEL)
@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (SERVICE, SERVICE),
        (
            "redis+sentinel://:password@localhost:12345/whatever/0",
            "redis+sentinel://localhost:12345/whatever",
        ),
        (
            "rediss+sentinel://:password@localhost:12345/whatever/2",
            "rediss+sentinel://localhost:12345/whatever/2",
        ),
        (
            "redis+sentinel://127.0.0.1:1234,blah:4829/blah",
            "redis+sentinel://127.0.0.1:1234,blah:4829/blah",
        ),
    ],
)
def test_sentinel(url: str, shown: str) -> None:
    client = redlock.Redlock(url)
    assert repr(client) == f"<redlock.Redlock {shown}>"


@asks("client_kinds", SENTINEL)
@pytest.mark.parametrize(
    "node", ["redis+sentinel://localhost:1234", "redis://localhost:1234/blah", object()]
)
def test_sentinel_config_errors(node: Any) -> None:
    with pytest.raises(redlock.InvalidOption):
        redlock.Redlock(node)


def shown(*nodes: str) -> str:
    return repr(redlock.Redlock([*nodes]))


@asks("passwords", UTILITY)
def test_ignores_details_with_no_password() -> None:
    assert "redis://someserver:1234" in shown("redis://someserver:1234/0")


@asks("passwords", UTILITY)
def test_cleans_details_with_password() -> None:
    assert "topsecret" not in shown("redis://:topsecret@someserver:1234")


@asks("passwords", UTILITY)
def test_cleans_details_with_password_in_list() -> None:
    assert "topsecret" not in shown("redis://a", "redis://:topsecret@b")


@asks("passwords", UTILITY)
def test_ignores_non_dsn_string() -> None:
    with pytest.raises(redlock.InvalidOption) as caught:
        redlock.Redlock("Hello, topsecret world.")
    assert "topsecret" not in str(caught.value)


@asks("passwords", UTILITY)
@pytest.mark.parametrize(
    "url",
    [
        "redis://:topsecret@someserver:1234/0",
        "redis://:h8%23iY60o$cqo%40!39iaS&VI8tx@someserver:1234/0",
        "rediss://:blahpass@someserver:1234/0",
    ],
)
def test_cleans_dsn_string(url: str) -> None:
    secret = url.partition("://:")[2].rpartition("@")[0]
    text = shown(url)
    assert "someserver:1234" in text
    assert secret not in text


@asks("passwords", UTILITY)
def test_cleans_dsn_string_in_list() -> None:
    client = redlock.Redlock(["redis://:topsecret@someserver:1234/0"])
    assert "topsecret" not in repr([client, client.lock("job")])
