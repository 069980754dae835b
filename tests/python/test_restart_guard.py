"""Nodes that restart, and the warnings about nodes, over five real servers."""

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redlock

from tests.servers import Server
from tests.waiting import eventually


@pytest.fixture(scope="module")
def five() -> Iterator[list[Server]]:
    servers = [Server() for _ in range(5)]
    yield servers
    for server in servers:
        server.close()


def test_restarted_node_reports_when_it_votes(
    five: list[Server], name: str, caplog: pytest.LogCaptureFixture, call: Callable[..., Any]
) -> None:
    urls = [server.url for server in five]
    with redlock.Redlock(urls, restart_guard=600) as client:
        lock = client.lock(name, ttl=5, wait=0)
        with pytest.raises(
            redlock.QuorumUnavailable, match=r"grants new leases in \d+\.\d s"
        ) as caught:
            call(lock, "acquire")
        young = [
            node for node in caught.value.nodes if "grants new leases in" in (node.error or "")
        ]
        assert len(young) >= 3, caught.value.nodes
        for node in call(lock, "inspect").nodes:
            assert node.state == "free"
            assert "grants new leases in" in (node.error or "")
        for url in (server.shown for server in five):
            eventually(lambda url=url: url in caplog.text, f"nothing was logged about {url}")
        assert "grants new leases in" in caplog.text
        with pytest.raises(redlock.InvalidOption, match="restart_guard"):
            call(client.lock(name, ttl=601), "acquire")


def test_one_server_under_two_urls_is_refused_or_reported(
    five: list[Server], name: str, caplog: pytest.LogCaptureFixture, call: Callable[..., Any]
) -> None:
    twice = [five[0].url, f"{five[0].url}/1"]
    with (
        redlock.Redlock(twice, restart_guard=0) as client,
        pytest.raises(redlock.InvalidOption, match="same server"),
    ):
        call(client.lock(name, wait=1), "acquire")
    caplog.clear()
    caplog.set_level(logging.WARNING, "redlock")
    # With a third URL there is a quorum without the second one. A warning is logged.
    with (
        redlock.Redlock([*twice, five[1].url], restart_guard=0) as client,
        client.lock(name, ttl=5),
    ):
        eventually(lambda: "same server" in caplog.text, "nothing was logged")


def test_eviction_policy_logs_a_warning(
    five: list[Server], name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "redlock")
    five[0].client.config_set("maxmemory-policy", "allkeys-lru")
    try:
        with redlock.Redlock(five[0].url) as client, client.lock(name, ttl=5):
            eventually(lambda: "noeviction" in caplog.text, "nothing was logged")
    finally:
        five[0].client.config_set("maxmemory-policy", "noeviction")
    assert "allkeys-lru" in caplog.text
    assert five[0].shown in caplog.text
