"""A throw-away Redis on a free loopback port, and a node that must not receive a connection."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from typing import Any

import redis

from tests.least import LOGIN, USER
from tests.ports import free_port
from tests.waiting import eventually


class Server:
    """One redis-server without persistence in a separate folder."""

    def __init__(self, *options: str) -> None:
        self.options = options
        self.folder = tempfile.mkdtemp(prefix="redlock-test-")
        for _ in range(5):  # another program may take the port before the start
            self.port = free_port()
            self.process = self._start()
            if self._answers():
                break
        else:
            raise RuntimeError("redis-server does not start")
        self.url = f"redis://{LOGIN}127.0.0.1:{self.port}"
        #: As it appears in messages.
        self.shown = f"redis://127.0.0.1:{self.port}"
        #: To inspect keys independently.
        self.client: Any = redis.Redis(
            port=self.port, decode_responses=True, socket_timeout=5, protocol=2
        )

    def _start(self) -> "subprocess.Popen[bytes]":
        options = {"port": self.port, "bind": "127.0.0.1", "save": "", "appendonly": "no"}
        options |= {"dir": self.folder, "maxmemory-policy": "noeviction"}
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        return subprocess.Popen(
            [os.environ.get("REDLOCK_TEST_SERVER", "redis-server"), *words, *USER, *self.options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )

    def _answers(self) -> bool:
        def answers() -> bool:
            with (
                contextlib.suppress(redis.ConnectionError),
                redis.Redis(port=self.port, socket_timeout=5, protocol=2) as client,
            ):
                return bool(client.ping())
            return False

        eventually(lambda: answers() or self.process.poll() is not None)
        return self.process.poll() is None

    def restart(self) -> None:
        """Kills it and starts it again without data on the same port."""
        self.process.kill()
        self.process.wait()
        self.process = self._start()
        assert self._answers()

    def freeze(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        self.client.close()
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class Silent:
    """A node that accepts connections and never replies."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.socket.setblocking(False)
        self.port = self.socket.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}"

    def called(self) -> bool:
        try:
            self.socket.accept()[0].close()
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        self.socket.close()
