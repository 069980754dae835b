"""Servers that refuse, are gone, or say nothing: the error names the cause in time."""

import contextlib
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.servers import Silent
from tests.waiting import eventually

from .conftest import World
from .failing import CAUSES, closed_port, frozen, full, loading, moved, started, wrongpass
from .remote import TTL

SLOW_TIER = pytest.mark.slow(
    "a server that says nothing, or not yet, to each verb for its whole deadline"
)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.mark.parametrize(
    "failing",
    [
        pytest.param(each, id=each.__name__, marks=[SLOW_TIER] * (each in (loading, frozen)))
        for each in CAUSES
    ],
)
def test_every_command_reports_the_cause(
    timed: World, stack: ExitStack, failing: Callable[[ExitStack], str]
) -> None:
    lock = timed.client(nodes=[failing(stack)], connect_timeout_ms=2000).lock("job")
    verbs: list[tuple[str, dict[str, object]]] = [("acquire", {"wait_ms": 1000}), ("try", {})]
    if failing is full:
        # It can be read. A request right after a refused one may still see its closed connection.
        eventually(lambda: lock.begin("inspect").reply().get("held") is False)
    else:
        verbs += [("attach", {"token": "token"}), ("force_release", {}), ("inspect", {})]
    for verb, fields in verbs:
        error = lock.fails(verb, "unavailable", **fields)
        (node,) = error["nodes"]
        assert CAUSES[failing] in node["error"], verb
        assert "s3cret" not in error["shown"]


def test_a_wrong_password_ends_an_acquire_without_a_wait(timed: World, stack: ExitStack) -> None:
    lock = timed.client(nodes=[wrongpass(stack)], unavailable_after_ms=10_000).lock("job")
    assert "WRONGPASS" in lock.fails("acquire", "unavailable", wait_ms=None)["message"]
    assert "WRONGPASS" in lock.start("lead").reply()["message"]


@pytest.mark.parametrize("verb", ["acquire", "try"])
def test_an_unexpected_cluster_is_reported_at_once(
    timed: World, stack: ExitStack, verb: str
) -> None:
    lock = timed.client(nodes=[moved(stack)]).lock("job")
    message = lock.fails(verb, "invalid", wait_ms=None)["message"]
    assert "Redis Cluster" in message
    assert "se redis+cluster://" in message


@pytest.mark.parametrize("verb", ["acquire", "try"])
def test_refused_scripts_are_unsupported_at_once(timed: World, stack: ExitStack, verb: str) -> None:
    hidden = ("EVAL", "EVALSHA", "SCRIPT")
    server = started(stack, *(word for each in hidden for word in ("--rename-command", each, "")))
    lock = timed.client(nodes=[server.url]).lock("job")
    message = lock.fails(verb, "unsupported", wait_ms=None)["message"]
    assert "does not support EVAL, which every lock needs" in message
    assert "ERR unknown command" in message
    assert server.client.dbsize() == 0


@pytest.mark.parametrize("verb", ["extend", "release"])
def test_a_frozen_server_fails_a_lease_in_time(timed: World, stack: ExitStack, verb: str) -> None:
    """The lease itself stays held for as long as it is certain."""
    server = started(stack)
    lease = timed.client(nodes=[server.url]).lock("job", renew=False).acquire()
    server.freeze()
    assert "no reply within" in lease.fails(verb, "unavailable", ttl_ms=TTL * 2)["message"]
    state = lease.do("held")
    assert (state["held"], state["ttl_ms"]) == (verb == "extend", TTL)


@pytest.mark.slow("a ttl of 300 ms ends while a server is frozen")
def test_the_end_of_a_short_lease_does_not_affect_a_long_one(
    timed: World, stack: ExitStack
) -> None:
    """Both leases use one connection. The server stalls for longer than the TTL of the short one."""
    server = started(stack)
    client = timed.client(nodes=[server.url])
    long, short = client.lock("long").acquire(), client.lock("short", ttl_ms=300).acquire()
    server.freeze()
    eventually(lambda: not short.held)
    server.thaw()
    assert short.fails("ensure_held", "lost")["reason"] == "expired"
    long.extend(TTL * 2)
    assert long.held


def test_nodes_that_fail_are_listed(on_servers: World) -> None:
    live = on_servers.servers[0].url
    for nodes in ([closed_port()], [live, closed_port(), closed_port()]):
        error = on_servers.client(nodes=nodes).lock("job").fails("inspect", "unavailable")
        assert error["resource"] == "lock:job"
        states = [node["state"] for node in error["nodes"]]
        assert states.count("fault") > len(nodes) / 2
        assert len(states) == len(nodes)
        assert all(node["error"] for node in error["nodes"] if node["state"] == "fault")
    lock = on_servers.client(nodes=[live, "memory://x", closed_port()]).lock(on_servers.name)
    found = lock.do("inspect")
    assert [node["state"] for node in found["nodes"]] == ["free", "free", "fault"]
    lock.acquire()
    assert lock.do("inspect")["held"]


def test_an_acquire_without_a_wait_ends_without_a_quorum(timed: World) -> None:
    url = closed_port()
    lock = timed.client(nodes=[url], unavailable_after_ms=1000).lock("job")
    # All callers of the process.
    for caller in [lock.start() for _ in range(3)]:
        error = caller.reply()
        assert error["code"] == "unavailable"
        assert "Gave up after unavailable" in error["message"]
        assert error["waited_ms"] >= 1000
        assert [node["state"] for node in error["nodes"]] == ["fault"]


@pytest.mark.parametrize(
    "limit", [{"unavailable_after_ms": 2000}, {"unavailable_after_ms": None}, {}]
)
def test_a_wait_for_a_held_lock_has_no_limit(timed: World, limit: dict[str, int | None]) -> None:
    client = timed.client(nodes=["memory://"], **limit)
    theirs = client.hold("job", ttl_ms=10_000)
    waiting = client.lock("job").start()
    eventually(lambda: client.waiting == 1)
    for _ in range(5):
        client.do("jump", ms=4000)
        theirs.extend(10_000)
    assert client.waiting == 1
    theirs.release()
    waiting.lease().release()


def test_without_a_limit_an_acquire_waits_for_the_node(timed: World) -> None:
    client = timed.client(nodes=["memory://"], unavailable_after_ms=None)
    client.do("fail")
    waiting = client.lock("job").start()
    eventually(lambda: client.waiting == 1)
    client.do("jump", ms=3_600_000)
    assert client.waiting == 1
    client.do("recover")
    waiting.lease().release()


def test_the_default_limit_is_ten_seconds(timed: World) -> None:
    client = timed.client(nodes=["memory://"])
    client.do("fail")
    waiting = client.lock("job").start()
    # It must have begun before the clock moves.
    eventually(lambda: client.waiting == 1)
    client.do("jump", ms=9000)
    assert client.waiting == 1
    client.do("jump", ms=1000)
    assert "Gave up after unavailable" in waiting.reply()["message"]


@pytest.mark.parametrize("verb", ["inspect", "force_release"])
def test_a_new_client_waits_for_its_connection(timed: World, verb: str) -> None:
    """`node_timeout` is only the limit of the replies (docs/how-to/inspect.md)."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"redis://127.0.0.1:{silent.getsockname()[1]}"
        client = timed.client(nodes=[url], node_timeout_ms=50, connect_timeout_ms=300)
        assert "connect" in client.lock("job").fails(verb, "unavailable")["message"]


def test_ping_reports_each_node(on_servers: World) -> None:
    live = on_servers.servers[0]
    client = on_servers.client(nodes=[live.url, "redis://127.0.0.1:1"])
    found = client.do("ping", timeout_ms=10_000)
    assert (found["ready"], found["ready_in_ms"]) == (False, None)
    one, two = found["nodes"]
    assert 0 < one.pop("latency_ms") < 10_000
    assert one == {"url": live.shown, "ready": True, "ready_in_ms": 0, "error": None}
    assert (two["ready"], two["ready_in_ms"], two["latency_ms"]) == (False, None, None)
    assert "Connection refused" in two["error"]


def test_ping_tells_whether_a_client_is_ready(world: World) -> None:
    assert world.one.do("ping", timeout_ms=10_000)["ready"]
    message = world.one.fails("ping", "invalid", timeout_ms=0)["message"]
    assert "the timeout of ping must be above 0" in message
    if not world.servers:
        world.one.do("fail")
        assert not world.one.do("ping", timeout_ms=10_000)["ready"]
        world.one.do("recover")
    world.one.do("close")
    world.one.fails("ping", "closed", timeout_ms=10_000)


def test_a_node_that_hangs_does_not_stall_clients_that_compete(
    timed: World, stack: ExitStack
) -> None:
    """A vote that they split must not wait for that node, or they would stall each other for `node_timeout`."""
    urls = [stack.enter_context(contextlib.closing(Silent())).url]
    urls += [started(stack).url for _ in range(2)]
    clients = [timed.client(nodes=urls, connect_timeout_ms=60_000) for _ in range(4)]
    locks = [each.lock("job", ttl_ms=600_000, node_timeout_ms=60_000) for each in clients]
    waiting = [lock.start() for lock in locks]
    for _ in range(40):
        eventually(lambda: any(each.is_over for each in waiting), "they stall")
        at = next(at for at, each in enumerate(waiting) if each.is_over)
        waiting[at].lease().release()
        waiting[at] = locks[at].start()
