"""Starts a holder of programs/ that uses another library, and communicates with it."""

import queue
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

FOLDER = Path(__file__).parent
REPLY_TIMEOUT = 60.0


@dataclass(frozen=True)
class Library:
    """What the tests must know of a library: its program, its keys, its behaviour."""

    name: str
    command: tuple[str | Path, ...]
    #: Its prefix before a name. redlock uses it as `key_prefix` for the same key.
    prefix: str = ""
    #: Votes over several nodes.
    quorum: bool = True
    #: The shortest TTL that it supports.
    least_ttl_ms: int = 300
    #: A waiter retries automatically, whichever library releases.
    polls: bool = True
    #: Reports if it releases a lock that it no longer holds.
    tells: bool = True


OURS, THEIRS = Path(sys.executable), FOLDER / ".venv/bin/python"
PYTHON, NODE = FOLDER / "programs/peer.py", ("node", FOLDER / "programs/peer.mjs")
RUST = FOLDER.parents[1] / "target/rslock/debug/peer"

LIBRARIES = [
    Library("redis-py", (OURS, PYTHON), quorum=False),
    Library("redis-py-asyncio", (OURS, PYTHON), quorum=False),
    Library("redlock-4", NODE),
    Library("redlock-5", NODE),
    Library("redis-semaphore", NODE, prefix="mutex:", tells=False),
    Library("redlock-universal", NODE, least_ttl_ms=1000),
    Library("redlock-py", (THEIRS, PYTHON), tells=False),
    Library("rslock", (RUST,), tells=False),
    Library("pottery", (THEIRS, PYTHON), prefix="redlock:"),
    Library(
        "python-redis-lock",
        (THEIRS, PYTHON),
        prefix="lock:",
        quorum=False,
        least_ttl_ms=1000,
        polls=False,
    ),
]


def named(name: str) -> Library:
    return next(library for library in LIBRARIES if library.name == name)


class Peer:
    """One lock holder process. `send` and `receive` are separate, so that an acquire can wait meanwhile."""

    def __init__(self, library: Library, urls: list[str]) -> None:
        command = [*map(str, library.command), library.name, ",".join(urls)]
        self.library = library
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self._answers: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert self.receive() == "ready"

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._answers.put(line.rstrip("\n"))
        self._answers.put(None)

    def send(self, *words: str | int) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()

    def receive(self) -> str:
        answer = self._answers.get(timeout=REPLY_TIMEOUT)
        if answer is None:
            raise EOFError(f"{self.library.name} has ended")
        return answer

    def acquire(self, name: str, ttl_ms: int = 10_000, wait_ms: int = 0) -> bool:
        self.send("acquire", name, ttl_ms, wait_ms)
        return self.receive() == "yes"

    def release(self) -> bool:
        self.send("release")
        return self.receive() == "yes"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()
