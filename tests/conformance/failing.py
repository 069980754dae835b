"""Real servers in bad states, with the word by which the error of a node names the state."""

import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.ports import free_port
from tests.servers import Server
from tests.waiting import eventually


def started(stack: ExitStack, *options: str) -> Server:
    return stack.enter_context(Server(*options))


def closed_port() -> str:
    return f"redis://127.0.0.1:{free_port()}"


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


def frozen(stack: ExitStack) -> str:
    server = started(stack)
    server.freeze()
    return server.url


def moved(stack: ExitStack) -> str:
    """Starts one of two nodes of a cluster. The other node has all keys."""
    one, two = (started(stack, "--cluster-enabled", "yes") for _ in range(2))
    two.client.execute_command("CLUSTER", "ADDSLOTS", *range(16384))
    one.client.execute_command("CLUSTER", "MEET", "127.0.0.1", two.port)
    until(lambda: one.client.get("key"), "moved")
    return one.url


def until(ask: Callable[[], object], word: str) -> None:
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


CAUSES: dict[Callable[[ExitStack], str], str] = {
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
