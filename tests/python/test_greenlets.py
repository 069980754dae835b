"""gevent and eventlet: a process that they have patched, before or after the import, works and can be ended."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from .servers import Server

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
