"""Warnings about the servers of a client."""

import pytest
import redlock

from tests.servers import Server
from tests.waiting import eventually


def test_one_server_under_two_urls_is_reported_if_there_is_a_quorum(
    redis_server: Server, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Server() as other:
        urls = [redis_server.url, f"{redis_server.url}/1", other.url]
        with redlock.Redlock(urls, restart_guard=0) as client, client.lock(name):
            eventually(lambda: "same server" in caplog.text, "nothing was logged")


def test_eviction_policy_logs_a_warning(name: str, caplog: pytest.LogCaptureFixture) -> None:
    with Server("--maxmemory-policy", "allkeys-lru") as server:
        with redlock.Redlock(server.url) as client, client.lock(name):
            eventually(lambda: "noeviction" in caplog.text, "nothing was logged")
        assert "allkeys-lru" in caplog.text
        assert server.shown in caplog.text
