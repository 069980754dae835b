"""Fencing tokens and TLS, as Python shows them."""

import asyncio
import subprocess
from pathlib import Path

import pytest
import redlock

from .servers import Server


def test_tokens_increase_over_clients(redis_server: Server) -> None:
    clients = [redlock.Redlock(redis_server.url) for _ in range(2)]
    last = 0
    for turn in range(10):
        with clients[turn % 2].lock("job", fencing=True, wait=5) as lease:
            assert lease.fencing_token > last
            last = lease.fencing_token


def test_tokens_in_asyncio() -> None:
    async def body() -> None:
        lock = redlock.Redlock("memory://fencing").lock("job", fencing=True)
        async with lock as one:
            first = one.fencing_token
        async with lock as two:
            assert two.fencing_token > first

    asyncio.run(body())


def test_several_names_share_one_token(
    redis_client: redlock.Redlock, redis_server: Server, name: str
) -> None:
    names = [f"{name}-a", f"{name}-b"]
    with redis_client.lock(names[1], fencing=True) as lease:
        before = lease.fencing_token
    with redis_client.lock(names, fencing=True) as lease:
        token = lease.fencing_token
    assert token > before
    stored = [redis_server.client.get(f"{{lock:{each}}}:fence") for each in names]
    assert stored == [str(token)] * 2
    with redis_client.lock(names[0], fencing=True) as lease:
        assert lease.fencing_token > token


def test_a_token_that_nobody_asked_for() -> None:
    with (
        redlock.Redlock("memory://").lock("unfenced") as lease,
        pytest.raises(redlock.InvalidOption, match="fencing"),
    ):
        _ = lease.fencing_token


def test_a_name_that_cannot_be_fenced() -> None:
    with pytest.raises(redlock.InvalidOption, match="hash slot"):
        redlock.Redlock("memory://").lock("a}b", fencing=True)


def test_tls_options(tmp_path: Path) -> None:
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
