"""gevent and eventlet: a process that they have patched, before or after the import, works and can be ended."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers import Server
from tests.waiting import eventually

PROGRAM = Path(__file__).with_name("programs") / "greenlets.py"

ways = pytest.mark.parametrize("when", ["before", "after"])
libraries = pytest.mark.parametrize("library", ["gevent", "eventlet"])


def start(*words: str) -> "subprocess.Popen[str]":
    pipe = subprocess.PIPE
    command = [sys.executable, "-W", "ignore", PROGRAM, *words]
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True)


@libraries
@ways
@pytest.mark.parametrize("kind", ["memory", "redis"])
def test_greenlets_wait_for_each_other(
    redis_server: Server, library: str, when: str, kind: str
) -> None:
    url = redis_server.url if kind == "redis" else "memory://"
    process = start(library, when, url, "works")
    try:
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
    assert (out, process.returncode) == ("1 25 True ['missing'] 0\n", 0), err


@pytest.mark.slow("measures how late the others run")
@libraries
@pytest.mark.parametrize("kind", ["memory", "redis"])
def test_waiting_greenlets_do_not_delay_the_others(
    redis_server: Server, library: str, kind: str
) -> None:
    """The median beat came 100 ms late at least, when each waiter blocked the thread for 1 ms in each turn."""
    url = redis_server.url if kind == "redis" else "memory://"
    process = start(library, "before", url, "crowd")
    try:
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    late, served = out.split() or ("inf", "0")
    assert (float(late) < 50, served, process.returncode) == (True, "150", 0), (out, err)


@libraries
def test_greenlet_that_waits_during_a_fork_ends_in_the_child(
    redis_server: Server, library: str
) -> None:
    """Nothing wakes it there. In the parent it acquires the lock."""
    process = start(library, "before", redis_server.url, "forks")
    try:
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert out.splitlines() == ["['forked']", "0 []"], (out, err)


@libraries
def test_command_after_overlapping_waits_of_greenlets_is_written_at_once(
    redis_server: Server, server: Server, library: str
) -> None:
    """The greenlet that began to wait first ends first. The process is stopped after a call that does not wait."""
    words = [sys.executable, "-W", "ignore", PROGRAM, library, "before", redis_server.url]
    pipe, servers = subprocess.PIPE, (redis_server, server)
    with subprocess.Popen(
        [*words, "overlaps", server.url], stdin=pipe, stdout=pipe, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def proceed() -> None:
            assert process.stdin is not None
            print(file=process.stdin, flush=True)

        try:
            assert process.stdout.readline() == "held\n"
            for each in servers:
                each.freeze()
            proceed()
            for each, ended in zip(servers, ("[1]\n", "[1, 2]\n"), strict=True):
                assert process.stdout.readline() == "waiting\n"
                each.thaw()
                assert process.stdout.readline() == ended
                proceed()
            eventually(lambda: not server.client.exists("lock:kept"))
        finally:
            for each in servers:
                each.thaw()
            process.kill()
            redis_server.client.delete("lock:overlap")
            server.client.delete("lock:kept")


@libraries
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_a_patched_process_that_waits(library: str, end: signal.Signals) -> None:
    with start(library, "before", "memory://", "waits") as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "waiting\n"
            process.send_signal(end)
            out, err = process.communicate(timeout=10)
        finally:
            process.kill()
    if end == signal.SIGINT:
        assert (out, process.returncode) == ("interrupted\n", 0), err
    else:
        assert process.returncode == -signal.SIGTERM, err
