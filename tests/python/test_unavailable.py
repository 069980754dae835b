"""`unavailable_after`: an acquire without a `wait` fails if no quorum of nodes replies."""

import socket
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import redlock
from redlock.testing import TestRedlock

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


@pytest.mark.parametrize("method", ["inspect", "force_release"])
def test_single_attempt_of_a_new_client_waits_for_its_connection(method: str) -> None:
    """`node_timeout` is only the limit of the replies (docs/how-to/inspect.md)."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"redis://127.0.0.1:{silent.getsockname()[1]}"
        client = redlock.Redlock(url, node_timeout=0.05, connect_timeout=0.3)
        began = time.monotonic()
        with pytest.raises(redlock.QuorumUnavailable, match="connect"):
            client.lock("job").inspect() if method == "inspect" else client.force_release("job")
        assert time.monotonic() - began >= 0.3


def test_body_does_not_run_without_a_quorum() -> None:
    client = redlock.Redlock(f"redis://127.0.0.1:{free_port()}", unavailable_after=0.3)
    with pytest.raises(redlock.QuorumUnavailable), client.lock("job"):
        raise AssertionError
    call = client.lock("job")(lambda: pytest.fail("called"))
    with pytest.raises(redlock.QuorumUnavailable):
        call()


def test_callers_in_one_process_all_fail() -> None:
    client = redlock.Redlock(f"redis://127.0.0.1:{free_port()}", unavailable_after=1)
    failed: list[str] = []

    def work() -> None:
        try:
            client.lock("job").acquire()
        except redlock.QuorumUnavailable as error:
            failed.append(error.code)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == ["unavailable"] * 8


@pytest.mark.parametrize("limit", [{"unavailable_after": 0.3}, {"unavailable_after": None}, {}])
def test_wait_for_a_held_lock_has_no_limit(limit: dict[str, Any]) -> None:
    with TestRedlock(**limit) as fake:
        theirs = fake.hold("job")
        got: list[bool] = []

        def work() -> None:
            with fake.lock("job") as lease:
                got.append(lease.held)

        thread = threading.Thread(target=work)
        thread.start()
        eventually(lambda: fake.stats().waiting == 1)
        for _ in range(5):
            fake.jump(4)
            theirs.extend(10)
        assert fake.stats().waiting == 1
        theirs.release()
        thread.join()
        assert got == [True]


def test_none_retries_until_the_node_replies() -> None:
    with TestRedlock(unavailable_after=None) as fake:
        fake.fail()
        got: list[bool] = []

        def work() -> None:
            with fake.lock("job") as lease:
                got.append(lease.held)

        thread = threading.Thread(target=work)
        thread.start()
        eventually(lambda: fake.stats().waiting == 1)
        fake.jump(3600)
        assert fake.stats().waiting == 1
        fake.recover()
        thread.join()
        assert got == [True]


def test_the_default_is_ten_seconds() -> None:
    with TestRedlock() as fake:
        fake.fail()
        failed: list[str] = []

        def work() -> None:
            try:
                fake.lock("job").acquire()
            except redlock.QuorumUnavailable as error:
                failed.append(str(error))

        thread = threading.Thread(target=work)
        thread.start()
        # It must have begun before the clock moves.
        eventually(lambda: fake.stats().waiting == 1)
        fake.jump(10)
        thread.join()
        assert "Gave up after unavailable_after=10." in failed[0]


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
