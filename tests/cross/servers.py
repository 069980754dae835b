"""Throw-away Redis servers on free loopback ports."""

import contextlib
import os
import shutil
import signal
import struct
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import redis

from tests.least import LOGIN, USER
from tests.ports import free_port
from tests.waiting import eventually


def program() -> str:
    """Returns the server program that the tests use."""
    return os.environ.get("REDLOCK_TEST_SERVER", "redis-server")


class Server:
    """One redis-server without persistence. `kill` is a crash, and `close` also removes its folder."""

    environment: Mapping[str, str] | None = None

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="redlock-test-")
        for _ in range(5):  # another program may take the port before the start
            self.port = free_port()
            self.process = self._start()
            if self._answers():
                break
        else:
            raise RuntimeError("redis-server does not start")
        self.url = f"redis://{LOGIN}127.0.0.1:{self.port}"

    def _start(self) -> "subprocess.Popen[bytes]":
        options = {"port": self.port, "bind": "127.0.0.1", "save": "", "appendonly": "no"}
        options |= {"dir": self.folder, "maxmemory-policy": "noeviction"}
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        return subprocess.Popen(
            [program(), *words, *USER],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env=self.environment,
        )

    def _answers(self) -> bool:
        def answers() -> bool:
            with contextlib.suppress(redis.ConnectionError):
                return bool(self.command("PING"))
            return False

        eventually(lambda: answers() or self.process.poll() is not None)
        return self.process.poll() is None

    def command(self, *words: str | int) -> Any:  # noqa: ANN401  (any command has its own answer)
        """Returns the server's reply, through a client other than redlock."""
        with redis.Redis(port=self.port, decode_responses=True, socket_timeout=5) as client:
            return client.execute_command(*words)

    def get(self, key: str) -> str | None:
        """Returns the token at a key."""
        value: str | None = self.command("GET", key)
        return value

    def freeze(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def restart(self) -> None:
        """Kills the server and starts it again on the same port without the data."""
        self.kill()
        self.process = self._start()
        assert self._answers(), "redis-server does not start again"

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class SteppedServer(Server):
    """A server with a wall clock that tests can step. `library` is wall_clock.c."""

    def __init__(self, library: str) -> None:
        with tempfile.NamedTemporaryFile(prefix="redlock-test-", delete=False) as ahead:
            ahead.write(bytes(8))
        self._ahead = Path(ahead.name)
        more = {"LD_PRELOAD": library, "WALL_OFFSET_FILE": ahead.name}
        self.environment = {**os.environ, **more}
        super().__init__()

    def step(self, seconds: int) -> None:
        """Sets its clock this far ahead of the machine's clock."""
        with self._ahead.open("r+b") as file:
            file.write(struct.pack("l", seconds))

    def close(self) -> None:
        super().close()
        self._ahead.unlink()
