"""Every language works through a proxy that closes the connection at some commands, or refuses them."""

from typing import Any

import pytest

from tests.servers import Server

from .agents import LANGUAGES, Agent
from .gateway import TWEMPROXY, Gateway

GATEWAYS: dict[str, dict[str, Any]] = {
    "twemproxy": {"known": TWEMPROXY},
    "closes-at-hello-and-client": {"known": TWEMPROXY | {"SCRIPT", "INFO", "SELECT", "TIME"}},
    "no-script-load": {"unsupported": ["SCRIPT", "EVALSHA"]},
    "no-hello": {"unsupported": ["HELLO", "CLIENT", "SCRIPT", "INFO"]},
}


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("kind", GATEWAYS)
def test_lock_works_through_a_proxy(
    five: list[Server], name: str, kind: str, language: str
) -> None:
    server, key = five[0], f"lock:{name}"
    with Gateway(server, **GATEWAYS[kind]) as gateway, Agent(language, [gateway.url]) as agent:
        token = agent.must("acquire", name=name, ttl_ms=10_000, wait_ms=None)["token"]
        assert server.get(key) == token
        agent.must("extend", ttl_ms=20_000)
        assert server.command("PTTL", key) > 10_000
        assert agent.must("inspect", name=name)["held"]
        assert agent.ask("try", name=name, ttl_ms=10_000)["code"] == "held"
        agent.must("release")
        assert server.get(key) is None
        agent.must("acquire", name=name, ttl_ms=10_000, wait_ms=None)
        assert agent.must("force_release", name=name)["deleted"]
        assert server.get(key) is None
