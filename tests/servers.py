"""Throw-away Redis servers on free loopback ports, and a node that must not receive a connection."""

import contextlib
import os
import shutil
import signal
import socket
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
    # scripts/test-servers sets it, to test other versions and Valkey.
    return os.environ.get("REDLOCK_TEST_SERVER", "redis-server")


class Server:
    """One redis-server without persistence. `kill` is a crash, and `close` also removes its folder."""

    #: The server's environment variables. None inherits those of the tests.
    environment: Mapping[str, str] | None = None

    def __init__(self, *options: str) -> None:
        self.options = options
        self.folder = tempfile.mkdtemp(prefix="redlock-test-")
        for _ in range(5):  # another program may take the port before the start
            self.port = free_port()
            self.process = self._start()
            if self._is_running():
                break
        else:
            raise RuntimeError("redis-server does not start")
        # LOGIN is empty, or the user that USER creates, if the tests run with minimum rights (`make test-acl`).
        self.url = f"redis://{LOGIN}127.0.0.1:{self.port}"
        #: As it appears in messages.
        self.shown = f"redis://127.0.0.1:{self.port}"
        #: To inspect keys independently.
        self.client: Any = self._client()

    def _start(self) -> "subprocess.Popen[bytes]":
        options = {"port": self.port, "bind": "127.0.0.1", "save": "", "appendonly": "no"}
        options |= {"dir": self.folder, "maxmemory-policy": "noeviction"}
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        return subprocess.Popen(
            [program(), *words, *USER, *self.options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env=self.environment,
        )

    def _is_running(self) -> bool:
        def replies() -> bool:
            with contextlib.suppress(redis.ConnectionError):
                return bool(self.command("PING"))
            return False

        eventually(lambda: replies() or self.process.poll() is not None)
        return self.process.poll() is None

    def _client(self) -> Any:  # noqa: ANN401  (its replies depend on the commands)
        return redis.Redis(port=self.port, decode_responses=True, socket_timeout=5, protocol=2)

    def command(self, *words: str | int) -> Any:  # noqa: ANN401  (the reply depends on the command)
        """Returns the server's reply, over a new connection."""
        with self._client() as client:
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
        assert self._is_running(), "redis-server does not start again"

    def close(self) -> None:
        self.client.close()
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
    """A server with a wall clock that tests can step.

    `library` is the path of the compiled wall_clock.c. Preloaded, it adds the offset in a file to every reading of the
    clock.
    """

    def __init__(self, library: str) -> None:
        with tempfile.NamedTemporaryFile(prefix="redlock-test-", delete=False) as offset:
            offset.write(bytes(8))
        self._offset = Path(offset.name)
        more = {"LD_PRELOAD": library, "WALL_OFFSET_FILE": offset.name}
        self.environment = {**os.environ, **more}
        super().__init__()

    def step(self, seconds: int) -> None:
        """Sets its clock this far ahead of the machine's clock."""
        with self._offset.open("r+b") as file:
            file.write(struct.pack("l", seconds))

    def close(self) -> None:
        super().close()
        self._offset.unlink()


class Silent:
    """A node that accepts connections and never replies."""

    def __init__(self) -> None:
        # Not any port: a client of another test may still try to connect to the port of its server, which has ended.
        self.port = free_port()
        self.socket = socket.create_server(("127.0.0.1", self.port))
        self.socket.setblocking(False)
        self.url = f"redis://127.0.0.1:{self.port}"

    def called(self) -> bool:
        try:
            self.socket.accept()[0].close()
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        self.socket.close()
