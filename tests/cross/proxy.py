"""A TCP proxy for one node that can lose, delay, cut and refuse what passes through it."""

import asyncio
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

from .servers import Server


class Proxy:
    """Passes everything on until told otherwise, on present and later connections alike.

    blackhole: bytes vanish in both directions, connections stay open and new ones are accepted.
    drop_replies: commands reach the server, nothing comes back.
    delay: seconds by which each reply is late.
    refuse: new connections are closed at once.
    """

    def __init__(self, server: Server) -> None:
        self.blackhole = False
        self.drop_replies = False
        self.refuse = False
        self.delay = 0.0
        self.dropped = 0  # chunks of replies that never arrived
        self._target = server.port
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        listener = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._serve, "127.0.0.1", 0), self._loop
        ).result()
        self.url = f"redis://127.0.0.1:{listener.sockets[0].getsockname()[1]}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refuse:
            writer.close()
            return
        with suppress(OSError):
            from_server, to_server = await asyncio.open_connection("127.0.0.1", self._target)
            ends = {writer, to_server}
            self._writers |= ends
            pumps = [self._pump(reader, to_server, False), self._pump(from_server, writer, True)]
            await asyncio.gather(*pumps)
            self._writers -= ends

    async def _pump(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, replies: bool
    ) -> None:
        with suppress(OSError):
            while data := await source.read(65536):
                if replies and self.delay:
                    await asyncio.sleep(self.delay)
                if self.blackhole or (replies and self.drop_replies):
                    self.dropped += replies
                    continue
                sink.write(data)
        sink.close()

    def reset(self) -> None:
        """Cuts every open connection with a TCP reset, bytes under way included."""

        def abort() -> None:
            for writer in self._writers:
                writer.transport.abort()

        self._loop.call_soon_threadsafe(abort)

    def close(self) -> None:
        self.reset()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
