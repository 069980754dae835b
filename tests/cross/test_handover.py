"""A lease moves to another process in another language, and stays one lease."""

import time

import pytest

from tests.servers import Server
from tests.waiting import eventually

from .agents import LANGUAGES, Agent
from .pairs import NEXT_LANGUAGE, every_pair

# A busy machine replies within a fifth of it.
TTL_MS = 4000
#: Longer than any TTL in use, so a lock that is still held was renewed.
BEYOND_TTL_S = TTL_MS / 1000 + 1


def handed_over(first: Agent, second: Agent, name: str) -> str:
    token: str = first.must("acquire", name=name, ttl_ms=TTL_MS, wait_ms=10_000)["token"]
    reply = second.must("attach", name=name, token=token, ttl_ms=TTL_MS)
    assert reply["token"] == token
    assert 0 < reply["remaining_ms"] <= TTL_MS
    return token


@pytest.mark.slow("longer than a ttl")
def test_attached_lease_survives_the_detach_and_end_of_the_first(five: list[Server]) -> None:
    nodes = [five[0].url]

    def scenario(first: Agent, second: Agent, name: str) -> None:
        handed_over(first, second, name)
        assert first.must("detach")["held"]
        assert not first.must("held")["held"]
        first.must("release")  # has nothing left to delete
        first.kill()
        with Agent("rust", nodes) as contender:
            contender.send("acquire", name=name, ttl_ms=TTL_MS, wait_ms=None)
            assert contender.silent_for(BEYOND_TTL_S), "acquired while another held it"
            assert second.must("held")["held"]
            second.must("release")
            assert contender.receive()["ok"]

    every_pair(nodes, scenario, NEXT_LANGUAGE)


@pytest.mark.slow("longer than a ttl")
def test_attached_lease_survives_the_kill_of_the_first(five: list[Server]) -> None:
    def scenario(first: Agent, second: Agent, name: str) -> None:
        handed_over(first, second, name)
        first.kill()
        time.sleep(BEYOND_TTL_S)
        assert second.must("held")["held"]
        second.must("extend", ttl_ms=TTL_MS)
        second.must("release")

    every_pair([server.url for server in five], scenario, NEXT_LANGUAGE)


def other_holder_is_notified(nodes: list[str], releases: int) -> None:
    def scenario(first: Agent, second: Agent, name: str) -> None:
        handed_over(first, second, name)
        ends, notified = (first, second) if releases == 0 else (second, first)
        ends.must("release")
        lost = notified.ask("lost", timeout_ms=2 * TTL_MS)
        if not lost["ok"]:
            # It saw a partial release, restored the keys, and is the holder.
            assert len(nodes) > 1, lost
            assert ends.ask("try", name=name, ttl_ms=TTL_MS)["code"] == "held"
            return
        assert lost["reason"] in ("missing", "quorum"), lost
        assert notified.ask("release")["code"] == "lost"
        ends.must("acquire", name=name, ttl_ms=TTL_MS, wait_ms=10_000)

    every_pair(nodes, scenario, NEXT_LANGUAGE)


def test_a_release_by_the_first_is_a_loss_for_the_second(nodes: list[str]) -> None:
    other_holder_is_notified(nodes, releases=0)


def test_a_release_by_the_second_is_a_loss_for_the_first(nodes: list[str]) -> None:
    other_holder_is_notified(nodes, releases=1)


def test_deleted_key_notifies_both_holders(five: list[Server]) -> None:
    def scenario(first: Agent, second: Agent, name: str) -> None:
        handed_over(first, second, name)
        assert five[0].command("DEL", f"lock:{name}") == 1
        for agent in (first, second):
            assert agent.must("lost", timeout_ms=4 * TTL_MS)["reason"] == "missing"

    every_pair([five[0].url], scenario, NEXT_LANGUAGE)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_wrong_or_expired_token_is_a_loss_and_changes_nothing(
    language: str, nodes: list[str], five: list[Server], name: str
) -> None:
    key, servers = f"lock:{name}", five[: len(nodes)]
    with Agent("rust", nodes) as holder, Agent(language, nodes) as stranger:
        token = holder.must("acquire", name=name, ttl_ms=TTL_MS, wait_ms=10_000)["token"]
        wrong = stranger.ask("attach", name=name, token="0" * 32, ttl_ms=TTL_MS)
        assert wrong["code"] == "lost", wrong
        kept = [server.get(key) for server in servers]
        assert kept.count(token) > len(kept) / 2, kept
        assert holder.must("held")["held"]
        holder.must("detach")
        for server in servers:
            server.command("PEXPIRE", key, 1)
        eventually(lambda: not any(server.get(key) for server in servers))
        expired = stranger.ask("attach", name=name, token=token, ttl_ms=TTL_MS)
        assert (expired["code"], "not attached" in expired["message"]) == ("lost", True), expired
        assert [server.get(key) for server in servers] == [None] * len(servers)
