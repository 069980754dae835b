"""An incident in the logs of a service in each language: the cause, the node, the key and the duration are fields."""

import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest

from tests.servers import Server
from tests.waiting import eventually

from .agents import ROOT

LOGGERS = {
    "python": [sys.executable, str(ROOT / "tests/agents/logger.py")],
    "node": ["node", str(ROOT / "tests/agents/logger.mjs")],
}


class Incident(NamedTuple):
    """What an operator does to a server, and what the log must tell."""

    #: Commands of redis-cli, or a method of the server.
    cause: str | list[str]
    #: What the field `fault` says. None if the node does not fail.
    fault: str | None
    #: Why the lease is lost. None if it is kept.
    reason: str | None


INCIDENTS = {
    "freeze": Incident("freeze", "sent nothing for|no reply", "expired"),
    "kill -9": Incident("kill", "refused|closed|reset", "expired"),
    "out of memory": Incident(["CONFIG SET maxmemory 1"], "OOM|memory", None),
    "NOAUTH": Incident(
        ["CONFIG SET requirepass s3cret-word", "CLIENT KILL TYPE normal SKIPME no"],
        "NOAUTH|password|log in|login|[Aa]uthentication",
        "expired",
    ),
    "flush": Incident(["FLUSHALL"], None, "missing"),
}


class Log:
    """The lines of a service."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.lines: list[dict[str, Any]] = []
        self.process = process
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(json.loads(line))

    def acquire(self) -> None:
        """Makes the service acquire a lock."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def wait_for(self, start: str) -> dict[str, Any]:
        def found() -> list[dict[str, Any]]:
            return [line for line in self.lines if line["message"].startswith(start)]

        eventually(found, lambda: self.lines)
        return found()[0]


@contextmanager
def service(language: str, url: str) -> Iterator[Log]:
    command, pipe = [*LOGGERS[language], url], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT) as process:
        log = Log(process)
        try:
            yield log
        finally:
            process.kill()
            log.reader.join()


def begin(server: Server, cause: str | list[str]) -> None:
    if isinstance(cause, str):
        getattr(server, cause)()
        return
    # One connection: the second command closes others, and new ones need the password.
    for command in cause:
        words = command.split()
        if words[0] == "CLIENT":
            arguments = ["-p", str(server.port), "-a", "s3cret-word", "--no-auth-warning", *words]
            subprocess.run(["redis-cli", *arguments], stdout=subprocess.DEVNULL, timeout=10)
        else:
            server.command(*words)


@pytest.mark.parametrize("language", LOGGERS)
@pytest.mark.parametrize("name", INCIDENTS)
def test_fields_describe_the_incident(name: str, language: str) -> None:
    incident = INCIDENTS[name]
    with Server() as server, service(language, server.url) as log:
        log.wait_for("ready")
        begin(server, incident.cause)
        log.acquire()
        shown = f"redis://127.0.0.1:{server.port}"
        if incident.fault is not None:
            # An error that no retry can fix is logged immediately, without an outage.
            starts = "the server replied" if name == "NOAUTH" else "unavailable for"
            line = log.wait_for(starts)
            fields = line["fields"]
            assert (line["level"], line["logger"]) in {
                ("warning", "redlock.node"),
                ("warn", "redlock.node"),
            }
            assert fields["node"] == shown
            assert re.search(incident.fault, fields["fault"]), fields
            if name != "NOAUTH":
                assert fields["outage_ms"] >= 0
                assert fields["failures"] >= 1
        if incident.reason is not None:
            line = log.wait_for("lease lost")
            fields = line["fields"]
            assert line["logger"] == "redlock.lease"
            assert (fields["key"], fields["reason"]) == ("lock:job", incident.reason)
            assert fields["held_ms"] > 0
        else:
            assert not [line for line in log.lines if line["message"].startswith("lease lost")]
        assert "s3cret" not in json.dumps(log.lines)
