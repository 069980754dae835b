"""`unavailable_after`: an acquire without a `wait` fails if no quorum of nodes replies."""

import socket
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import redlock

from tests.ports import free_port
from tests.waiting import eventually

Call = Callable[..., Any]


@pytest.mark.parametrize("limit", [1, timedelta(seconds=1)])
@pytest.mark.parametrize("wait", [{}, {"wait": None}])
def test_a_closed_port_ends_an_acquire_without_a_wait(
    call: Call, limit: "float | timedelta", wait: dict[str, None]
) -> None:
    url = f"redis://127.0.0.1:{free_port()}"
    client = redlock.Redlock(url, unavailable_after=limit)
    with pytest.raises(redlock.QuorumUnavailable, match="not available for 1") as caught:
        call(client.lock("job"), "acquire", **wait)
    assert "Gave up after unavailable_after=1. Pass a finite wait= to" in str(caught.value)
    assert "unavailable_after=None" in str(caught.value)
    assert caught.value.waited is not None
    assert caught.value.waited >= 1
    assert [(node.url, node.state) for node in caught.value.nodes] == [(url, "fault")]


def test_body_does_not_run_without_a_quorum() -> None:
    client = redlock.Redlock(f"redis://127.0.0.1:{free_port()}", unavailable_after=0.3)
    with pytest.raises(redlock.QuorumUnavailable), client.lock("job"):
        raise AssertionError
    call = client.lock("job")(lambda: pytest.fail("called"))
    with pytest.raises(redlock.QuorumUnavailable):
        call()


def test_from_client_accepts_the_option() -> None:
    redis = pytest.importorskip("redis")
    theirs = redis.Redis(port=free_port())
    client = redlock.Redlock.from_client(theirs, unavailable_after=0.3)
    with pytest.raises(redlock.QuorumUnavailable, match=r"unavailable_after=0\.3"):
        client.lock("job").acquire()
    assert redlock.Redlock.from_client(theirs, unavailable_after=None).nodes == client.nodes
    with pytest.raises(redlock.InvalidOption, match=r"unavailable_after .*'soon'"):
        redlock.Redlock.from_client(theirs, unavailable_after="soon")  # type: ignore[arg-type]


def test_time_out_of_an_attempt_to_connect_names_its_step(caplog: pytest.LogCaptureFixture) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"redis://127.0.0.1:{listener.getsockname()[1]}"
    step = "no connection within 0.200 s, waiting for the reply to HELLO"
    caplog.set_level("DEBUG", "redlock")
    with listener, redlock.Redlock(url, connect_timeout=0.2) as client:
        with pytest.raises(redlock.QuorumUnavailable, match=step) as caught:
            client.lock("job").try_acquire()
        assert step in str(caught.value.nodes[0].error)
        eventually(lambda: any(step in str(vars(record)) for record in caplog.records))
