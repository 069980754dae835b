"""Throw-away Redis servers on free ports of this machine, and slow links to them."""

import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent


@contextmanager
def pinned(cores: Iterable[int]) -> Iterator[None]:
    """Pins the processes that start in this block to these cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class Server:
    """A throw-away redis-server."""

    options: tuple[str, ...] = ()

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.folder = tempfile.mkdtemp()
        command = ["redis-server", *self.arguments()]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        self.url = f"redis://127.0.0.1:{self.port}"
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except ConnectionRefusedError:
                assert self.process.poll() is None, "redis-server does not start"
                time.sleep(0.003)

    def arguments(self) -> list[str]:
        """Returns its command line."""
        fixed = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly"]
        return [*fixed, "no", "--dir", self.folder, "--maxclients", "20000", *self.options]

    def info(self, section: str) -> str:
        """Returns a section of INFO."""
        with socket.create_connection(("127.0.0.1", self.port)) as stream:
            stream.sendall(f"INFO {section}\r\n".encode())
            text = b""
            while not text.endswith(b"\r\n") or text.count(b"\r\n") < 3:
                text += stream.recv(65536)
        return text.decode()

    def calls(self, command: str) -> int:
        """Returns how often it ran the command, inside scripts or directly."""
        found = re.search(rf"cmdstat_{command}:calls=(\d+)", self.info("commandstats"))
        return int(found[1]) if found else 0

    def requests(self) -> int:
        """Returns how many commands clients sent for acquires and releases, if none was extended.

        Each acquire by script runs one SET and one PTTL. A SET without a PTTL is one of the two commands of a plain
        attempt.
        """
        return self.calls("evalsha") + 2 * (self.calls("set") - self.calls("pttl"))

    def cpu(self) -> float:
        """Returns the CPU seconds so far."""
        return sum(
            float(each) for each in re.findall(r"used_cpu_(?:sys|user):(\S+)", self.info("cpu"))
        )

    def stop(self) -> None:
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


@contextmanager
def servers(count: int) -> Iterator[list[Server]]:
    """Runs this many servers during the block."""
    started: list[Server] = []
    try:
        for _ in range(count):
            started.append(Server())
        yield started
    finally:
        for server in started:
            server.stop()


@contextmanager
def links(ports: list[int], round_trip_ms: float) -> Iterator[list[int]]:
    """Yields ports that lead to these ports with half a round trip of delay in each direction. Without a delay, yields
    the ports themselves.
    """
    if not round_trip_ms:
        yield ports
        return
    command = [str(HERE / "out" / "link"), str(round_trip_ms / 2), *map(str, ports)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield [int(port) for port in process.stdout.readline().split()]
    finally:
        process.kill()
        process.wait()


class Monitor:
    """Counts the commands that a server runs: those sent by clients, and all including those inside scripts."""

    def __init__(self, server: Server) -> None:
        self.sent = self.executed = 0
        self.stream = socket.create_connection(("127.0.0.1", server.port))
        self.stream.sendall(b"MONITOR\r\n")
        assert self.stream.recv(5) == b"+OK\r\n"
        self.thread = threading.Thread(target=self.read)
        self.thread.start()

    def read(self) -> None:
        for line in self.stream.makefile("rb"):
            if b'"bench-monitor-end"' in line:
                return
            self.executed += 1
            self.sent += b" lua] " not in line.split(b'"', 1)[0]

    def stop(self, server: Server) -> None:
        """Stops the count. Everything sent before this is counted, because a server reports each command before its
        next reply.
        """
        with socket.create_connection(("127.0.0.1", server.port)) as last:
            last.sendall(b"ECHO bench-monitor-end\r\n")
            last.recv(100)
        self.thread.join()
        self.stream.close()
