"""`ping` in Python: blocking, asyncio and trio, the result, and mistakes. `rust/ping.rs` has the reasons of nodes."""

import asyncio
from datetime import timedelta

import anyio
import pytest
import redlock

from tests.servers import Server


def test_reports_each_node(redis_server: Server) -> None:
    urls = [redis_server.url, "redis://127.0.0.1:1"]
    with redlock.Redlock(urls, restart_guard=0) as client:
        found = client.ping(timeout=10)
        assert (found.ready, found.ready_in) == (False, None)
        one, two = found.nodes
        assert (one.url, one.ready, one.ready_in, one.error) == (redis_server.url, True, 0, None)
        assert one.latency is not None
        assert 0 < one.latency < 10
        assert (two.url, two.ready, two.ready_in, two.latency) == (urls[1], False, None, None)
        assert two.error is not None
        assert "Connection refused" in two.error
        assert repr(found).startswith(
            "Ping(ready=False, ready_in=None, nodes=[NodePing(url='redis://"
        )
        assert "ready=False, ready_in=None, latency=None, error='cannot connect: " in repr(two)


def test_ready_client(redis_server: Server) -> None:
    with redlock.Redlock(redis_server.url) as client:
        assert client.ping(timedelta(seconds=10)).ready
        assert asyncio.run(client.as_async().ping(10)).ready
        assert anyio.run(client.as_async().ping, 10, backend="trio").ready


def test_mistakes() -> None:
    client = redlock.Redlock("memory://")
    with pytest.raises(redlock.InvalidOption, match="the timeout of ping must be above 0"):
        client.ping(0)
    with pytest.raises(redlock.InvalidOption, match="timeout is 'x'"):
        client.ping("x")  # type: ignore[arg-type]
    with pytest.raises(redlock.InvalidOption, match="timeout"):
        client.ping(-1)
    client.close()
    with pytest.raises(redlock.ClientClosed):
        client.ping()
