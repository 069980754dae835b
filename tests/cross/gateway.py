"""A proxy for one server that does not know every command, as twemproxy and managed services."""

import contextlib
import socket
import threading
from collections.abc import Collection
from types import TracebackType
from typing import BinaryIO, Self

from tests.least import LOGIN
from tests.servers import Server

#: The commands of redlock that twemproxy passes on.
TWEMPROXY = frozenset(
    [
        "AUTH",
        "PING",
        "GET",
        "SET",
        "DEL",
        "PTTL",
        "PEXPIRE",
        "GETRANGE",
        "EXISTS",
        "EVAL",
        "EVALSHA",
        "QUIT",
    ]
)


def request(source: BinaryIO) -> list[bytes]:
    """Reads a command. Returns nothing at the end."""
    count = source.readline()
    return [word(source) for _ in range(int(count[1:]))] if count else []


def word(source: BinaryIO) -> bytes:
    length = int(source.readline()[1:])
    return source.read(length + 2)[:-2]


def encoded(words: list[bytes]) -> bytes:
    parts = [b"$%d\r\n%s\r\n" % (len(word), word) for word in words]
    return b"*%d\r\n%s" % (len(words), b"".join(parts))


class Gateway:
    """Closes the connection at a command that is not in `known`. One in `unsupported` has an error as its reply."""

    def __init__(
        self,
        server: Server,
        known: Collection[str] | None = None,
        unsupported: Collection[str] = (),
    ) -> None:
        self._server, self._known, self._unsupported = server, known, unsupported
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"redis://{LOGIN}127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with (
            client,
            socket.create_connection(("127.0.0.1", self._server.port)) as server,
            contextlib.suppress(OSError),
        ):
            threading.Thread(target=self._pump, args=(server, client), daemon=True).start()
            source = client.makefile("rb")
            while words := request(source):
                command = words[0].decode().upper()
                if self._known is not None and command not in self._known:
                    break
                if command in self._unsupported:
                    # The server itself sends the error, in the order of the commands.
                    words[0] = b"UNSUPPORTED"
                server.sendall(encoded(words))
            client.shutdown(socket.SHUT_RDWR)

    def _pump(self, server: socket.socket, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(65_536):
                client.sendall(data)
            client.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listener.close()
