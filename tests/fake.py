"""A server that behaves well until the command for which a row of `vectors/replies.toml` specifies a broken reply."""

import socket
import threading
import tomllib
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

Row = dict[str, Any]
TABLE = Path(__file__).parent / "vectors" / "replies.toml"
ROWS: list[Row] = tomllib.loads(TABLE.read_text())["reply"]
ATTEMPTS: list[Row] = tomllib.loads(TABLE.read_text())["attempt"]


class FakeServers:
    """A fake for each row. Those whose names are in `healthy` grant every request."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.healthy: set[str] = set()
        #: The fakes that have granted a lock through the acquire script.
        self.granted: set[str] = set()
        self.urls: dict[str, str] = {}
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        for row in rows:
            listener = socket.create_server(("127.0.0.1", 0), backlog=50)
            port = listener.getsockname()[1]
            self.urls[row["about"]] = f"redis://user:s3cret-word@127.0.0.1:{port}"
            self._start(self._listen, row, listener)

    def connections(self) -> int:
        """Returns how many connections are open. Each has a thread, as each listener has."""
        return sum(thread.is_alive() for thread in self._threads) - len(self.urls)

    def _start(
        self, work: Callable[[Row, socket.socket], None], row: Row, own: socket.socket
    ) -> None:
        def run() -> None:
            with own, suppress(OSError, EOFError):
                work(row, own)

        thread = threading.Thread(target=run)
        self._sockets.append(own)
        self._threads.append(thread)
        thread.start()

    def _listen(self, row: Row, listener: socket.socket) -> None:
        while True:
            self._start(self._serve, row, listener.accept()[0])

    def _serve(self, row: Row, client: socket.socket) -> None:
        if row["to"] == "connect" and row["about"] not in self.healthy:
            send_reply(row, [], client)
        with client.makefile("rb") as reader:
            while args := command(reader):
                # The client checks this right when it connects. The rows apply to the later commands.
                is_check = any("redlock-rights" in arg for arg in args)
                if args[0] == row["to"] and not is_check and row["about"] not in self.healthy:
                    send_reply(row, args, client)
                else:
                    # A release has no TTL after its token.
                    if args[0] == "EVALSHA" and len(args) > 5:
                        self.granted.add(row["about"])
                    client.sendall(valid_reply(row, args))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for thread in self._threads:  # it grows until the listeners have ended
            for own in self._sockets:
                with suppress(OSError):
                    own.shutdown(socket.SHUT_RDWR)
            thread.join()


def command(reader: BinaryIO) -> list[str]:
    """Returns the arguments of one command. Empty once the client has disconnected."""
    args = []
    for _ in range(int(reader.readline()[1:] or 0)):
        length = int(reader.readline()[1:] or 0)
        args.append(reader.read(length + 2)[:-2].decode())
    return args


def bulk(args: list[str]) -> str:
    """Returns the last element of a script's reply."""
    echo = next(iter(args[4:] or args[3:]), "")
    return f"${len(echo)}\r\n{echo}\r\n"


def send_reply(row: Row, args: list[str], client: socket.socket) -> None:
    text = row["say"].replace("{bulk}", bulk(args)).replace("{asked}", " ".join(args))
    client.sendall((row.get("first", "") + text).encode())
    while row.get("then") == "again":
        client.sendall(text.encode() * 1000)
    if row.get("then") == "close":
        raise EOFError


def valid_reply(row: Row, args: list[str]) -> bytes:
    match args[0]:
        case "HELLO" if row["to"] == "AUTH":
            return b"-NOPROTO unsupported protocol version\r\n"
        case "HELLO":
            return b"%1\r\n$5\r\nproto\r\n:3\r\n"
        case "INFO":
            return b"$0\r\n\r\n"
        case "SCRIPT":
            return b"$2\r\nok\r\n"
        case "EVALSHA":
            return f"*4\r\n:1\r\n:60000\r\n$0\r\n\r\n{bulk(args)}".encode()
        case "GETRANGE":  # no owner, so the client sends the script
            return b"$0\r\n\r\n"
        case "TIME":
            return b"*2\r\n$10\r\n1790000000\r\n$1\r\n0\r\n"
        case _:
            return b"+OK\r\n"
