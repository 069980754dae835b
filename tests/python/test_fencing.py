"""Fencing tokens and TLS in Python."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redlock

from .servers import Server

Call = Callable[..., Any]


def test_tokens_increase_over_clients(
    client: redlock.Redlock, redis_server: Server, name: str, within: Call
) -> None:
    nodes = client.nodes[0]
    other = redlock.Redlock(redis_server.url) if nodes.startswith("redis") else client
    last = 0
    for turn in range(10):
        lock = (client, other)[turn % 2].lock(name, fencing=True, wait=5)
        token: Any = within(lock, lambda lease: lease.fencing_token)
        assert token > last
        last = token


def test_several_names_share_one_token(
    redis_client: redlock.Redlock, redis_server: Server, name: str, within: Call
) -> None:
    names = [f"{name}-a", f"{name}-b"]

    def token_of(which: str | list[str]) -> int:
        token: int = within(
            redis_client.lock(which, fencing=True), lambda lease: lease.fencing_token
        )
        return token

    before = token_of(names[1])
    token = token_of(names)
    assert token > before
    stored = [redis_server.client.get(f"{{lock:{each}}}:fence") for each in names]
    assert stored == [str(token)] * 2
    assert token_of(names[0]) > token


def test_reading_a_token_without_fencing_is_an_error(within: Call) -> None:
    with pytest.raises(redlock.InvalidOption, match="fencing"):
        within(redlock.Redlock("memory://").lock("unfenced"), lambda lease: lease.fencing_token)


def test_fencing_refuses_a_closing_brace_in_the_name() -> None:
    with pytest.raises(redlock.InvalidOption, match="hash slot"):
        redlock.Redlock("memory://").lock("a}b", fencing=True)


def test_tls_options_are_checked(tmp_path: Path) -> None:
    url = "rediss://127.0.0.1:1"
    with pytest.raises(redlock.InvalidOption, match="nowhere"):
        redlock.Redlock(url, tls_ca=tmp_path / "nowhere.pem")
    command = (
        "openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.crt -days 2 -subj /CN=ca"
    )
    subprocess.run(command.split(), cwd=tmp_path, check=True, capture_output=True)
    redlock.Redlock(url, tls_ca=str(tmp_path / "ca.crt"), tls_server_name="redis.test")
    with pytest.raises(redlock.InvalidOption, match="tls_key"):
        redlock.Redlock(url, tls_ca=tmp_path / "ca.crt", tls_cert=tmp_path / "ca.crt")
