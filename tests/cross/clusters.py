"""Throw-away Redis Clusters on free loopback ports: three masters, each with a replica."""

import subprocess
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from tests.least import LOGIN, USER
from tests.servers import Server, program
from tests.waiting import eventually

SLOTS = 16384
#: A master without replies for this long counts as failed.
NODE_TIMEOUT_MS = 1000


class Member(Server):
    """One server of a cluster. The others connect to it at its port plus 10,000, which must be free."""

    def _start(self) -> "subprocess.Popen[bytes]":
        options = {"port": self.port, "bind": "127.0.0.1", "save": "", "appendonly": "no"}
        options |= {"dir": self.folder, "cluster-enabled": "yes"}
        options |= {"cluster-node-timeout": NODE_TIMEOUT_MS, "repl-diskless-sync-delay": 0}
        options |= {"cluster-replica-validity-factor": 0, "cluster-migration-barrier": 6}
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        return subprocess.Popen(
            [program(), *words, *USER], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )

    def id(self) -> str:
        """Returns the id of the node in the cluster."""
        return str(self.command("CLUSTER", "MYID"))

    def role(self) -> str:
        return str(self.command("ROLE")[0])


class Cluster:
    """Three masters that share the slots, and three replicas."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self.members = [self._stack.enter_context(Member()) for _ in range(6)]
        masters, replicas = self.members[:3], self.members[3:]
        for at, master in enumerate(masters):
            # Uses ADDSLOTS, which Redis 6.2 supports too.
            master.command("CLUSTER", "ADDSLOTS", *range(at * SLOTS // 3, (at + 1) * SLOTS // 3))
            master.command("CLUSTER", "SET-CONFIG-EPOCH", at + 1)
        for other in self.members[1:]:
            masters[0].command("CLUSTER", "MEET", "127.0.0.1", other.port)
        eventually(lambda: all(self._known(member) == 6 for member in self.members), "all know all")
        for master, replica in zip(masters, replicas, strict=True):
            replica.command("CLUSTER", "REPLICATE", master.id())
        self.settle()

    @staticmethod
    def _known(member: Member) -> int:
        nodes: dict[str, object] = member.command("CLUSTER NODES")
        return len(nodes)

    @property
    def url(self) -> str:
        """Returns a URL with one seed, because agents split their URLs at commas."""
        return f"redis+cluster://{LOGIN}127.0.0.1:{self.members[0].port}"

    def masters(self) -> list[Member]:
        return [member for member in self.members if member.role() == "master"]

    def owner(self, key: str) -> Member:
        """Returns the master that owns the key's slot, according to the first master."""
        asked = self.members[0]
        slot = asked.command("CLUSTER", "KEYSLOT", key)
        rows = asked.command("CLUSTER", "SLOTS")
        port = next(row[2][1] for row in rows if row[0] <= slot <= row[1])
        return next(member for member in self.members if member.port == port)

    def replica_of(self, master: Member) -> Member:
        name = master.id()
        nodes = master.command("CLUSTER NODES")
        ports = [
            int(address.rsplit(":", 1)[1])
            for address, node in nodes.items()
            if node["master_id"] == name
        ]
        return next(member for member in self.members if member.port in ports)

    def settle(self) -> None:
        """Waits until every master has a synchronized replica, and every server knows them."""

        def settled() -> bool:
            for member in self.members:
                if member.command("CLUSTER INFO")["cluster_state"] != "ok":
                    return False
                flags = [node["flags"] for node in member.command("CLUSTER NODES").values()]
                if sum("slave" in flag and "fail" not in flag for flag in flags) != 3:
                    return False
                if member.role() == "slave" and member.command("ROLE")[3] != "connected":
                    return False
            return len(self.masters()) == 3

        eventually(settled, "the cluster does not settle")

    def move_slot(self, key: str, to: Member) -> None:
        """Moves the key's slot with its data, as `redis-cli --cluster reshard` does."""
        source = self.owner(key)
        if source is to:
            return
        slot = source.command("CLUSTER", "KEYSLOT", key)
        to.command("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id())
        source.command("CLUSTER", "SETSLOT", slot, "MIGRATING", to.id())
        while keys := source.command("CLUSTER", "GETKEYSINSLOT", slot, 10):
            source.command("MIGRATE", "127.0.0.1", to.port, "", 0, 5000, "KEYS", *keys)
        for member in (to, source, *self.masters()):
            member.command("CLUSTER", "SETSLOT", slot, "NODE", to.id())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()
