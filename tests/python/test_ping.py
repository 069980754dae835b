"""`ping` in Python: event loops, texts and types. `conformance/test_failing.py` has the result."""

import asyncio
from datetime import timedelta

import anyio
import pytest
import redlock

from tests.servers import Server


def test_text_has_each_node() -> None:
    with redlock.Redlock("redis://127.0.0.1:1") as client:
        text = repr(client.ping(timeout=10))
        assert text.startswith("Ping(ready=False, ready_in=None, nodes=[NodePing(url='redis://")
        assert "ready=False, ready_in=None, latency=None, error='cannot connect: " in text


def test_ready_client(redis_server: Server) -> None:
    with redlock.Redlock(redis_server.url) as client:
        assert client.ping(timedelta(seconds=10)).ready
        assert asyncio.run(client.as_async().ping(10)).ready
        assert anyio.run(client.as_async().ping, 10, backend="trio").ready


def test_mistakes() -> None:
    client = redlock.Redlock("memory://")
    with pytest.raises(redlock.InvalidOption, match="timeout is 'x'"):
        client.ping("x")  # type: ignore[arg-type]
    with pytest.raises(redlock.InvalidOption, match="timeout"):
        client.ping(-1)
