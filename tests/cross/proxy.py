"""A TCP proxy for one node that can lose, delay, cut and refuse traffic."""

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeVar

from tests.least import LOGIN
from tests.servers import Server

T = TypeVar("T")


class Proxy:
    """Forwards everything until a test changes that, on present and later connections alike.

    blackhole: bytes vanish in both directions, connections stay open and new ones are accepted. drop_replies: commands
    reach the server, but no reply comes back. delay: seconds by which each reply is late. refuse: new connections are
    closed immediately.
    """

    def __init__(self, server: Server) -> None:
        self.blackhole = False
        self.drop_replies = False
        self.refuse = False
        self.delay = 0.0
        self.dropped = 0  # chunks of replies that were dropped
        self._target = server.port
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._listener = self._run(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.url = f"redis://{LOGIN}127.0.0.1:{self._listener.sockets[0].getsockname()[1]}"

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refuse:
            writer.close()
            return
        self._writers.add(writer)
        with suppress(OSError):
            from_server, to_server = await asyncio.open_connection("127.0.0.1", self._target)
            self._writers.add(to_server)
            pumps = [self._pump(reader, to_server, False), self._pump(from_server, writer, True)]
            await asyncio.gather(*pumps)
            self._writers.discard(to_server)
        self._writers.discard(writer)
        writer.close()

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
        """Resets every open TCP connection and discards the bytes in flight."""
        self._run(self._abort())

    async def _abort(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    def close(self) -> None:
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        self._listener.close()
        await self._abort()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
