"""A service under Sentinel: a primary, two replicas whose replication can be blocked, and three sentinels."""

import contextlib
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import redis

from tests.least import LOGIN
from tests.servers import Server, program
from tests.waiting import eventually

from .agents import now
from .proxy import Proxy

SERVICE = "service"
#: The users of the sentinels and the replicas. Disabling them cuts both off.
SENTINELS, REPLICAS = "sentinels", "replicas"
#: Events that report a failover, including its first step.
EVENTS = ("+promoted-slave", "+switch-master")
FAILOVER_TIMEOUT = 40.0


class Sentinel(Server):
    """One of the sentinels. It writes its state into its configuration file."""

    def __init__(self, primary: int) -> None:
        self.primary = primary
        super().__init__()

    def _start(self) -> "subprocess.Popen[bytes]":
        lines = [
            f"port {self.port}",
            "bind 127.0.0.1",
            f"dir {self.folder}",
            f"sentinel monitor {SERVICE} 127.0.0.1 {self.primary} 2",
            f"sentinel down-after-milliseconds {SERVICE} 500",
            # A replica may follow a proxy for this long before the sentinels reconfigure it. A failed election is
            # repeated after twice this time, which must be within a test's time limit.
            f"sentinel failover-timeout {SERVICE} 15000",
            f"sentinel auth-user {SERVICE} {SENTINELS}",
            f"sentinel auth-pass {SERVICE} {SENTINELS}",
        ]
        file = Path(self.folder) / "sentinel.conf"
        file.write_text("\n".join(lines))
        return subprocess.Popen(
            [program(), str(file), "--sentinel"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )

    def knows(self) -> tuple[int, int]:
        """Returns how many replicas and how many other sentinels it sees."""
        with redis.Redis(port=self.port, decode_responses=True, socket_timeout=5) as client:
            state = client.sentinel_master(SERVICE)
        return state["num-slaves"], state["num-other-sentinels"]

    def names(self) -> int:
        """Returns the port that it reports for the primary."""
        _, port = self.command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)
        return int(port)


class Service:
    """The servers, the sentinels, and the time at which each of them reported a failover."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self.servers = [self._stack.enter_context(Server()) for _ in range(3)]
        self.primary, *self.replicas = self.servers
        for server in self.servers:
            for user in (SENTINELS, REPLICAS):
                server.command("ACL", "SETUSER", user, "on", f">{user}", "~*", "&*", "+@all")
            # One by one, because Redis 6.2 accepts no more.
            for option in ("masteruser", "masterauth"):
                server.command("CONFIG", "SET", option, REPLICAS)
            server.command("CONFIG", "SET", "repl-diskless-sync-delay", "0")
        #: The proxy between the replicas and the primary. Bytes that it drops are not replicated.
        self.replication = self._stack.enter_context(Proxy(self.primary))
        port = self.replication.url.rsplit(":", 1)[1]
        for replica in self.replicas:
            replica.command("REPLICAOF", "127.0.0.1", port)
        self.sentinels = [self._stack.enter_context(Sentinel(self.primary.port)) for _ in range(3)]
        self._until(lambda: all(one.knows() == (2, 2) for one in self.sentinels))
        self.events: list[int] = []
        for sentinel in self.sentinels:
            threading.Thread(target=self._listen, args=(sentinel.port,), daemon=True).start()

    def _listen(self, port: int) -> None:
        with contextlib.suppress(redis.ConnectionError, OSError, ValueError):
            client = redis.Redis(port=port, decode_responses=True)
            with client.pubsub(ignore_subscribe_messages=True) as events:  # type: ignore[no-untyped-call]
                events.subscribe(*EVENTS)
                for _ in events.listen():
                    self.events.append(now())

    @staticmethod
    def _until(done: Callable[[], object]) -> None:
        eventually(done, "the state was not reached")

    def url(self, ports: list[int] | None = None) -> str:
        """Returns the URL for clients. `ports` are those of proxies to the sentinels."""
        ports = ports or [sentinel.port for sentinel in self.sentinels]
        hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
        return f"redis+sentinel://{LOGIN}{hosts}/{SERVICE}"

    def replicated(self, key: str) -> None:
        """Waits until the replicas have the key."""
        self._until(lambda: all(replica.command("EXISTS", key) for replica in self.replicas))

    def fail_over(self) -> None:
        """Promotes a replica while the primary is alive, as soon as the sentinels can."""

        def begun() -> bool:
            with contextlib.suppress(redis.ResponseError):
                return bool(self.sentinels[0].command("SENTINEL", "FAILOVER", SERVICE))
            return False

        self._until(begun)

    def isolate(self) -> None:
        """Cuts the primary off from sentinels and replicas. Clients still reach it."""
        port = self.primary.port
        with redis.Redis(port=port, single_connection_client=True, socket_timeout=5) as admin:
            # Clients use the user "default". Their existing connections stay open, and new ones are refused.
            for user in ("default", SENTINELS, REPLICAS):
                admin.execute_command("ACL", "SETUSER", user, "off")
            for user in (SENTINELS, REPLICAS):
                admin.execute_command("CLIENT", "KILL", "USER", user)

    def switched(self) -> int:
        """Waits until all sentinels report the same replica. Returns when the first of them reported it."""
        ports = [replica.port for replica in self.replicas]

        def agree() -> bool:
            named = {sentinel.names() for sentinel in self.sentinels}
            return len(named) == 1 and named < set(ports)

        self._until(agree)
        return min(self.events)

    def promoted(self) -> Server:
        """Returns the replica that is the primary now."""
        port = self.sentinels[0].names()
        return next(replica for replica in self.replicas if replica.port == port)

    def close(self) -> None:
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
