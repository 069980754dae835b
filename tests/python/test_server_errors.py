"""Real servers in bad states. Each is an error with a separate cause within `wait`, and no key is left behind."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest
import redis
import redlock
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.ports import free_port
from tests.waiting import eventually

from .servers import Server

Call = Callable[..., Any]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def started(stack: ExitStack, *options: str) -> Server:
    server = Server(*options)
    stack.callback(server.close)
    return server


def protected(stack: ExitStack) -> Server:
    server = started(stack)
    server.client.config_set("requirepass", "s3cret-word")
    return server


def noauth(stack: ExitStack) -> str:
    return protected(stack).url


def wrongpass(stack: ExitStack) -> str:
    return protected(stack).url.replace("//", "//:wr0ng-s3cret@")


def noperm(stack: ExitStack) -> str:
    server = started(stack)
    server.client.acl_setuser(
        "some", enabled=True, passwords=["+s3cret"], categories=["+@all"], keys=["other:*"]
    )
    return server.url.replace("//", "//some:s3cret@")


def replica(stack: ExitStack) -> str:
    master = started(stack, "--repl-diskless-sync-delay", "0")
    server = started(stack, "--replicaof", "127.0.0.1", str(master.port))
    eventually(lambda: server.client.info("replication")["master_link_status"] == "up")
    return server.url


def masterdown(stack: ExitStack) -> str:
    server = started(stack)
    server.client.config_set("replica-serve-stale-data", "no")
    server.client.replicaof("127.0.0.1", str(free_port()))
    return server.url


def full(stack: ExitStack) -> str:
    return started(stack, "--maxmemory", "1").url


def busy(stack: ExitStack) -> str:
    """Starts a server with an endless script, which then refuses with BUSY."""
    server = started(stack, "--lua-time-limit", "1")

    def loop() -> None:
        with redis.Redis(port=server.port) as client, suppress(redis.RedisError):
            client.eval("while true do end", 0)

    thread = threading.Thread(target=loop)
    thread.start()
    stack.callback(thread.join)
    stack.callback(lambda: server.client.script_kill())
    until(lambda: server.client.ping(), "busy")
    return server.url


def without_retries(server: Server) -> redis.Redis:
    """Returns a client that reports each error at once, instead of waiting for the end of its cause."""
    return redis.Redis(port=server.port, retry=Retry(NoBackoff(), 0))


def loading(stack: ExitStack) -> str:
    """Starts a server that loads a file of keys for longer than the test takes."""
    server = started(stack, "--rdbcompression", "no", "--enable-debug-command", "yes")
    server.client.execute_command("DEBUG", "POPULATE", 10_000, "key", 100)
    server.client.config_set("key-load-delay", 2000)  # µs
    server.client.config_set("loading-process-events-interval-bytes", 1024)

    def load() -> None:
        with without_retries(server) as client, suppress(redis.RedisError):
            client.execute_command("DEBUG", "RELOAD")

    thread = threading.Thread(target=load)
    thread.start()
    stack.callback(thread.join)
    stack.callback(server.process.kill)
    until(stack.enter_context(without_retries(server)).ping, "loading")
    return server.url


def moved(stack: ExitStack) -> str:
    """Starts one of two nodes of a cluster. The other node has all keys."""
    one, two = (started(stack, "--cluster-enabled", "yes") for _ in range(2))
    two.client.execute_command("CLUSTER", "ADDSLOTS", *range(16384))
    one.client.execute_command("CLUSTER", "MEET", "127.0.0.1", two.port)
    until(lambda: one.client.get("key"), "moved")
    return one.url


def until(ask: Callable[[], Any], word: str) -> None:
    """Repeats the call until it is refused for that reason."""
    said = ""

    def refused() -> bool:
        nonlocal said
        try:
            ask()
        except redis.RedisError as error:
            said = f"{type(error).__name__} {error}"
        return word in said.lower()

    eventually(refused, lambda: said)


def frozen(stack: ExitStack) -> str:
    server = started(stack)
    server.freeze()
    stack.callback(server.thaw)
    return server.url


CAUSES = {
    noauth: "NOAUTH",
    wrongpass: "WRONGPASS",
    noperm: "NOPERM",
    replica: "is a replica",
    masterdown: "is a replica",
    full: "OOM",
    busy: "BUSY",
    loading: "LOADING",
    frozen: "no ",  # reply, or connection
}
#: This server serves reads. A read-only verb correctly returns that no lock exists.
READABLE = [full]


SLOW_TIER = pytest.mark.slow(
    "a server that says nothing, or not yet, to each verb for its whole deadline"
)


def test_a_wrong_password_ends_an_acquire_without_wait(stack: ExitStack, name: str) -> None:
    with redlock.Redlock(wrongpass(stack)) as client:
        with pytest.raises(redlock.QuorumUnavailable, match="WRONGPASS"):
            client.lock(name).acquire()
        with pytest.raises(redlock.QuorumUnavailable, match="WRONGPASS"), client.lock(name):
            pass


@pytest.mark.parametrize(
    "failing",
    [
        pytest.param(
            failing, id=failing.__name__, marks=[SLOW_TIER] * (failing in (loading, frozen))
        )
        for failing in CAUSES
    ],
)
def test_every_verb_reports_the_cause_in_time(
    stack: ExitStack, failing: Callable[[ExitStack], str], name: str
) -> None:
    url = failing(stack)

    def check(call: Call) -> None:
        with redlock.Redlock(url) as client:
            lock = client.lock(name, wait=1)
            others = [(client, "attach", (name, "token")), (client, "force_release", (name,))]
            others.append((lock, "inspect", ()))
            verbs = [(lock, "acquire", ()), (lock, "try_acquire", ())]
            for thing, verb, args in verbs + others * (failing not in READABLE):
                with pytest.raises(redlock.QuorumUnavailable) as caught:
                    call(thing, verb, *args)
                (node,) = caught.value.nodes
                assert CAUSES[failing] in str(node.error), verb
                assert "s3cret" not in f"{caught.value!r} {client!r} {node!r}"
            if failing in READABLE:  # the server can report the holder, and the others cannot
                # A request right after a refused one may still see its closed connection.
                def free() -> bool:
                    with suppress(redlock.QuorumUnavailable):
                        return not call(lock, "inspect").held
                    return False

                eventually(free)

    async def awaited(thing: Any, verb: str, *args: Any) -> Any:
        return await getattr(thing.as_async(), verb)(*args)

    check(lambda thing, verb, *args: getattr(thing, verb)(*args))
    with asyncio.Runner() as runner:
        check(lambda thing, verb, *args: runner.run(awaited(thing, verb, *args)))


@pytest.mark.parametrize("verb", ["acquire", "try_acquire"])
def test_unexpected_cluster_is_reported_at_once(
    stack: ExitStack, name: str, call: Call, verb: str
) -> None:
    with (
        redlock.Redlock(moved(stack)) as client,
        pytest.raises(redlock.InvalidOption, match=r"Redis Cluster.*[Uu]se redis\+cluster://"),
    ):
        call(client.lock(name), verb)


@pytest.mark.parametrize("verb", ["acquire", "try_acquire"])
def test_refused_scripts_are_unsupported_at_once(
    stack: ExitStack, name: str, call: Call, verb: str
) -> None:
    hidden = ("EVAL", "EVALSHA", "SCRIPT")
    server = started(stack, *(word for each in hidden for word in ("--rename-command", each, "")))
    says = r"does not support EVAL, which every lock needs.*ERR unknown command"
    with (
        redlock.Redlock(server.url) as client,
        pytest.raises(redlock.Unsupported, match=says),
    ):
        call(client.lock(name), verb)
    assert server.client.dbsize() == 0


@pytest.mark.parametrize("verb", ["extend", "release"])
def test_extend_and_release_fail_in_time_on_a_frozen_server(
    stack: ExitStack, name: str, call: Call, verb: str
) -> None:
    """The verb fails in time with its cause. The lease itself stays held for as long as it is certain."""
    server = started(stack)
    with redlock.Redlock(server.url) as client:
        lease = call(client.lock(name, ttl=5, renew=False), "acquire")
        server.freeze()
        with pytest.raises(redlock.QuorumUnavailable, match="no reply within"):
            call(lease, verb)
        assert lease.held == (verb == "extend")
    server.thaw()
    if verb == "extend":
        with pytest.raises(redlock.LockLost):
            lease.release()


def test_expiry_of_a_short_lease_does_not_affect_a_long_one(
    stack: ExitStack, name: str, call: Call
) -> None:
    """Both leases use one connection. The server stalls for longer than the TTL of the short one."""
    server = started(stack)
    with redlock.Redlock(server.url) as client:
        long = call(client.lock(f"{name}-long", ttl=30), "acquire")
        short = call(client.lock(f"{name}-short", ttl=0.3), "acquire")
        notified: list[Any] = []
        long.on_lost(notified.append)
        server.freeze()
        eventually(lambda: not short.held)
        server.thaw()
        with pytest.raises(redlock.LockLost) as caught:
            short.ensure_held()
        assert caught.value.reason == "expired"
        call(long, "extend", 30)
        assert long.held
        assert not notified
        assert client.stats().reconnects == 0
        call(long, "release")
        with suppress(redlock.LockLost):
            call(short, "release")
