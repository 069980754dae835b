"""Detects by trial which features of a server redlock can use: one column of the table in docs/operate/servers.md.

As a program, it prints the whole table for the given servers.
"""

import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable

import redlock

from tests.servers import Server


def _column(server: str) -> str:
    """Returns the column title of a server."""
    said = subprocess.run([server, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.match(r"(Redis|Valkey) server v=(\d+\.\d+)", said)
    assert found, said
    return f"{found[1]} {found[2]}"


def _lock(server: Server) -> None:
    with redlock.Redlock(server.url) as client, client.lock("job", ttl=1) as lease:
        time.sleep(1.5)
        lease.ensure_held()
        lease.extend(5)


def _several(server: Server) -> None:
    with redlock.Redlock(server.url) as client, client.lock(["a", "b", "c"]) as lease:
        lease.extend(20)


def _fencing(server: Server) -> None:
    tokens = []
    with redlock.Redlock(server.url) as client:
        for _ in range(3):
            with client.lock("fenced", fencing=True) as lease:
                tokens.append(lease.fencing_token or 0)
    assert 0 < tokens[0] < tokens[1] < tokens[2]


def _push(server: Server) -> None:
    with redlock.Redlock(server.url) as client, client.lock("job"):
        assert server.client.info("clients")["tracking_clients"] == 1


def _replicas(server: Server) -> None:
    with contextlib.closing(Server("--replicaof", "127.0.0.1", str(server.port))) as replica:
        while server.client.wait(1, 100) < 1:
            server.client.incr("awaited")
        with (
            redlock.Redlock(server.url, min_replicas=1) as client,
            client.lock("job") as lease,
        ):
            assert replica.client.get(lease.key) == lease.token


def _disk(server: Server) -> None:
    server.client.config_set("appendonly", "yes")
    with redlock.Redlock(server.url, fsync=True) as client, client.lock("job"):
        pass


FEATURES: list[tuple[str, Callable[[Server], None]]] = [
    ("acquire, renew, extend, release", _lock),
    ("several names", _several),
    ("`fencing`", _fencing),
    ("notified by push of a release and of a loss", _push),
    ("`min_replicas`", _replicas),
    ("`fsync`", _disk),
]


def column(program: str) -> tuple[str, list[str]]:
    """Returns the title of a column and one word per feature."""
    words = []
    os.environ["REDLOCK_TEST_SERVER"] = program
    for _, does in FEATURES:
        with contextlib.closing(Server()) as server:
            word = "no: `Unsupported`"
            with contextlib.suppress(redlock.Unsupported):
                does(server)
                word = "yes"
            words.append(word)
    return _column(program), words


def table(programs: list[str]) -> str:
    """Returns the table in the format of docs/operate/servers.md."""
    columns = [column(program) for program in programs]
    lines = ["| | " + " | ".join(name for name, _ in columns) + " |"]
    lines.append("|---" * (len(columns) + 1) + "|")
    for at, (feature, _) in enumerate(FEATURES):
        lines.append(f"| {feature} | " + " | ".join(words[at] for _, words in columns) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(sys.argv[1:]))
