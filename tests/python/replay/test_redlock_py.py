"""redlock-py 1.0.8: tests/test_redlock.py."""

from collections.abc import Callable
from typing import Any

import pytest
import redlock

from tests.ports import free_port

from .cases import Source

Call = Callable[..., Any]
THEIRS = Source("redlock-py", {"tests/test_redlock.py": 6})
asks = THEIRS.asks


@asks("writes")
def test_lock(ours: redlock.Redlock, r: Any, name: str, call: Call) -> None:
    for _ in range(2):
        lease = call(ours.lock(name, ttl=0.1), "acquire")
        assert (lease.key, r.get(name)) == (name, lease.token)
        call(lease, "release")


@asks("excludes")
def test_blocked(ours: redlock.Redlock, another: redlock.Redlock, name: str, call: Call) -> None:
    lease = call(ours.lock(name, ttl=1), "acquire")
    assert call(another.lock(name), "try_acquire") is None
    call(lease, "release")


@asks("client_kinds")
def test_bad_connection_info() -> None:
    nodes: Any = [{"cat": "hog"}]
    with pytest.raises(redlock.InvalidOption, match="must be a str such as 'redis://"):
        redlock.Redlock(nodes)


@asks("writes")
def test_py3_compatible_encoding(ours: redlock.Redlock, r: Any, name: str, call: Call) -> None:
    lease = call(ours.lock(name, ttl=1), "acquire")
    assert r.get(name) == lease.token
    call(lease, "release")


@asks("ttl_whole")
def test_ttl_not_int_trigger_exception_value_error(
    ours: redlock.Redlock, r: Any, name: str, call: Call
) -> None:
    lease = call(ours.lock(name, ttl=1.0005), "acquire")
    assert 0 < r.pttl(name) <= 1001
    call(lease, "release")
    with pytest.raises(ValueError, match="by position"):
        ours.lock(name, 1000.0)  # type: ignore[arg-type]


@asks("causes")
def test_multiple_redlock_exception(name: str, call: Call) -> None:
    ports = [free_port() for _ in range(2)]
    nodes = [f"redis://127.0.0.1:{port}" for port in ports]
    with (
        redlock.Redlock(nodes) as client,
        pytest.raises(redlock.QuorumUnavailable) as caught,
    ):
        call(client.lock(name, wait=0), "acquire")
    assert len(caught.value.nodes) == 2
    assert all(f"127.0.0.1:{port}" in str(caught.value) for port in ports)
