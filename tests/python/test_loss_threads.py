"""When `on_lost` callbacks run: a loss waits neither for log records nor for callbacks of other clients."""

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redlock

from tests.servers import Server
from tests.waiting import eventually

from . import processes

LIMIT = 20
PROGRAMS = Path(__file__).with_name("programs")


class BlockingHandler(logging.Handler):
    """Blocks at the first record, like a stream with a full pipe."""

    def __init__(self) -> None:
        super().__init__()
        self.entered = threading.Event()
        self.goes_on = threading.Event()

    def handle(self, record: logging.LogRecord) -> bool:
        self.entered.set()
        return self.goes_on.wait()


@contextmanager
def blocked_log() -> Iterator[BlockingHandler]:
    handler, logger = BlockingHandler(), logging.getLogger("redlock")
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        redlock.Redlock("memory://").lock("record").acquire().release()
        assert handler.entered.wait(LIMIT)
        yield handler
    finally:
        handler.goes_on.set()
        logger.setLevel(logging.NOTSET)
        logger.removeHandler(handler)


def lose(client: redlock.Redlock, name: str, *callbacks: Any) -> redlock.Lease:
    """Returns the lease, which must live until its loss is noticed."""
    lease = client.lock(name).acquire()
    for callback in callbacks:
        lease.on_lost(callback)
    client.force_release(name)
    return lease


def test_blocked_log_handler_delays_no_callback(client: redlock.Redlock, name: str) -> None:
    told = threading.Event()
    with blocked_log() as log:
        lease = lose(client, name, lambda _: told.set())
        assert told.wait(LIMIT)
        assert not lease.held
        assert not log.goes_on.is_set()


def test_blocked_callback_delays_no_other_client(client: redlock.Redlock, name: str) -> None:
    goes_on, entered = threading.Event(), threading.Semaphore(0)
    blocked = [redlock.Redlock("memory://") for _ in range(5)]
    order: list[str] = []
    leases: list[redlock.Lease] = []

    def block(_: redlock.LockLost) -> None:
        entered.release()
        goes_on.wait()
        order.append("blocked")

    try:
        for other in blocked:
            leases.append(lose(other, name, block))
            assert entered.acquire(timeout=LIMIT)
        # A later loss of a blocked client waits for its turn.
        last = threading.Event()
        later = lambda _: (order.append("later"), last.set())  # noqa: E731
        leases.append(lose(blocked[0], "later", later))
        told = threading.Event()
        leases.append(lose(client, name, lambda _: told.set()))
        assert told.wait(LIMIT)
        assert order == []
    finally:
        goes_on.set()
    assert last.wait(LIMIT)
    eventually(lambda: len(order) == 6)
    assert order.index("blocked") < order.index("later")


def test_report_of_a_raising_callback_delays_no_other_callback(
    client: redlock.Redlock, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report goes to stderr, which may be a full pipe."""
    told, reported = threading.Event(), threading.Event()
    monkeypatch.setattr(sys, "unraisablehook", lambda _: reported.set())
    with blocked_log():
        lease = lose(client, name, lambda _: 1 / 0, lambda _: told.set())
        assert told.wait(LIMIT)
        assert not lease.held
        assert not reported.is_set()
    assert reported.wait(LIMIT)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_threads_for_losses_start_with_the_first_callback() -> None:
    assert processes.output_of((PROGRAMS / "loss_threads.py").read_text()).splitlines() == [
        "['redlock-log']",
        "['redlock-log', 'redlock-losses']",
    ]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_forked_child_calls_its_callbacks_while_one_of_the_parent_blocks() -> None:
    out, errors = processes.run((PROGRAMS / "loss_in_fork.py").read_text()).communicate(timeout=60)
    assert out == "0\n", errors


@pytest.mark.slow("measures when callbacks run")
@pytest.mark.limit(400)
@pytest.mark.parametrize("slow", ["file", "handler", "pipe", "callback"])
def test_callback_runs_soon_while_another_part_is_slow(
    redis_server: Server, slow: str, tmp_path: Path
) -> None:
    command = [
        sys.executable,
        str(PROGRAMS / "loss_times.py"),
        redis_server.url,
        slow,
        str(tmp_path),
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=300, check=True)
    late = done.stdout.split()
    assert "never" not in late, late
    assert len(late) == 20, late
    # Four busy threads each keep the GIL for up to 5 ms.
    assert max(map(int, late)) < 250, late
