"""A network namespace whose servers are behind a slow line or a NAT that forgets connections. It needs root rights."""

import json
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import redis

from tests.least import LOGIN, USER
from tests.python import certificates
from tests.servers import program
from tests.waiting import eventually

from .agents import FOLDER, ROOT, Agent, Program

HOST = "192.0.2.2"
PORT, TLS_PORT = 6379, 6380
NAMESPACES = ("unshare", "--net", "--mount")


@cache
def is_possible() -> bool:
    """Returns whether this user may create namespaces, and the system has TUN devices."""
    if not Path("/dev/net/tun").exists() or not shutil.which("unshare") or not shutil.which("ip"):
        return False
    words = [*NAMESPACES, "ip", "tuntap", "add", "mode", "tun", "name", "line"]
    return subprocess.run(words, check=False, capture_output=True).returncode == 0


class Network:
    """One Redis server at HOST, with and without TLS, for the agents of this network."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="redlock-test-"))
        certificates.make(self.folder)
        resolver = self.folder / "resolv.conf"
        line = FOLDER / "line.py"
        self.line = Program(*NAMESPACES, sys.executable, str(line), str(resolver))
        assert self.line.receive()["ready"]
        self.inside = [
            "nsenter",
            f"--net=/proc/{self.line.process.pid}/ns/net",
            f"--mount=/proc/{self.line.process.pid}/ns/mnt",
            f"--wd={ROOT}",
        ]
        options: dict[str, object] = {"port": PORT, "bind": "0.0.0.0", "protected-mode": "no"}
        options |= {"save": "", "dir": self.folder, "unixsocket": self.folder / "socket"}
        options |= {"tls-port": TLS_PORT, "tls-auth-clients": "no"}
        options |= {"tls-cert-file": self.folder / "server.crt"}
        options |= {"tls-key-file": self.folder / "server.key"}
        options |= {"tls-ca-cert-file": self.folder / "ca.crt"}
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        self.server = subprocess.Popen(
            [*self.inside, program(), *words, *USER],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        eventually(lambda: (self.folder / "socket").exists(), "redis-server does not start")

    def url(self, host: str = HOST, /, **parameters: float) -> str:
        words = "&".join(f"{name}={value}" for name, value in parameters.items())
        return f"redis://{LOGIN}{host}:{PORT}?{words}"

    def tls_url(self, **parameters: float) -> str:
        words = "&".join(f"{name}={value}" for name, value in parameters.items())
        return f"rediss://{LOGIN}{HOST}:{TLS_PORT}?ssl_cert_reqs=none&{words}"

    def agent(self, language: str, url: str) -> Agent:
        return Agent(language, [url], before=self.inside)

    def set(self, **settings: object) -> None:
        """Sets `delay` (of one direction) and `lookup` in seconds, or lets the NAT `forget` all connections."""
        assert self.line.process.stdin is not None
        self.line.process.stdin.write(json.dumps(settings) + "\n")
        self.line.process.stdin.flush()
        assert self.line.receive()["done"]

    def command(self, *words: str | int) -> Any:  # noqa: ANN401  (any command has its own answer)
        """Returns the server's reply, which does not pass through the line."""
        with redis.Redis(unix_socket_path=str(self.folder / "socket")) as client:
            return client.execute_command(*words)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.server.kill()
        self.server.wait()
        self.line.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
