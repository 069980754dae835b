"""A server that stalls for less than `node_timeout`: every call succeeds, over the same connections."""

import time
from contextlib import ExitStack

import pytest

from tests.servers import Server
from tests.waiting import eventually

from .agents import LANGUAGES, Agent

pytestmark = pytest.mark.slow("a server is frozen for real time")

VERBS = ("acquire", "try", "extend", "release", "inspect", "force_release", "attach")
#: Longer than a connection without a long deadline survives, and shorter than the option.
STALL, NODE_TIMEOUT = 2.0, 4
#: After this time without bytes, the connection for notifications is probed.
QUIET = 1.2


@pytest.mark.parametrize("verb", VERBS)
def test_server_may_stall_for_less_than_node_timeout(verb: str) -> None:
    with ExitStack() as stack:
        server = stack.enter_context(Server())
        url = f"{server.url}?socket_timeout={NODE_TIMEOUT}"
        agents = [stack.enter_context(Agent(language, [url])) for language in LANGUAGES]
        for agent in agents:
            agent.must("acquire", name=agent.language, ttl_ms=60_000, wait_ms=0)
        connections = 2 * len(agents)
        eventually(lambda: server.command("CLIENT", "LIST").count(" name=redlock ") == connections)
        tokens = {agent.language: server.get(f"lock:{agent.language}") for agent in agents}
        for agent in agents:
            if verb in ("acquire", "try"):
                agent.must("release")
            elif verb == "attach":
                # In Rust, the drop of the earlier lease would release the key.
                agent.must("detach")
        time.sleep(QUIET)
        opened = server.command("INFO", "stats")["total_connections_received"]
        server.freeze()
        for agent in agents:
            match verb:
                case "acquire":
                    agent.send(verb, name=agent.language, ttl_ms=60_000, wait_ms=0)
                case "try":
                    agent.send(verb, name=agent.language, ttl_ms=60_000)
                case "attach":
                    token = tokens[agent.language]
                    agent.send(verb, name=agent.language, token=token, ttl_ms=60_000)
                case "extend":
                    agent.send(verb, ttl_ms=90_000)
                case _:
                    agent.send(verb, name=agent.language)
        time.sleep(STALL)
        server.thaw()
        replies = [agent.receive() for agent in agents]
        assert all(reply["ok"] for reply in replies), replies
        # One is that of the second `INFO`.
        more = server.command("INFO", "stats")["total_connections_received"] - opened
        assert more == 1, "a connection was replaced"
