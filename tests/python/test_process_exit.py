"""An interpreter that exits while daemon threads use locks exits cleanly, every time."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers import Server

PROGRAM = Path(__file__).with_name("programs") / "exits.py"
#: Repetitions of each program. The tests of the shipped wheel use more.
RUNS = int(os.environ.get("REDLOCK_TEST_EXITS", "3"))


def run(*words: object) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=30)


@pytest.mark.limit(300)
@pytest.mark.parametrize("what", ["waits", "cycles", "holds", "extends", "is_notified", "loops"])
def test_process_with_daemon_threads_exits_cleanly(
    redis_server: Server, name: str, what: str
) -> None:
    for number in range(RUNS):
        done = run(PROGRAM, redis_server.url, f"{name}-{number}", what)
        assert (done.stdout, done.returncode) == ("done\n", 0), (number, done.stderr)
        # Python prints messages about daemon threads, and about a loop that ends under one. redlock cannot prevent
        # them.
        assert "panicked" not in done.stderr
        assert "redlock" not in done.stderr.replace("redlock-losses", ""), done.stderr


#: How the main thread ends in the body of a `with`, and the exit code of the process.
ENDS = {
    "return": 0,
    "sys.exit": 3,
    "exception": 1,
    "ctrl-c": -signal.SIGINT,
    "sigterm": -signal.SIGTERM,
    "os._exit after fork": 0,
}


@pytest.mark.limit(300)
@pytest.mark.parametrize("what", ["waits", "cycles", "holds"])
@pytest.mark.parametrize("how", ENDS)
def test_main_thread_that_ends_in_a_body_releases(
    redis_server: Server, name: str, what: str, how: str
) -> None:
    for number in range(RUNS):
        done = run(PROGRAM, redis_server.url, f"{name}-{number}", what, how)
        assert (done.stdout, done.returncode) == ("done\n", ENDS[how]), (number, done.stderr)
        assert "panicked" not in done.stderr
        assert "Fatal" not in done.stderr, done.stderr
        # If the main thread gets no turn to release, the lock expires when its TTL ends.
        left = redis_server.client.exists(f"lock:{name}-{number}-main")
        assert left == (how == "sigterm"), (number, done.stderr)


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_signal_at_any_time_ends_the_process_cleanly(
    redis_server: Server, name: str, end: signal.Signals
) -> None:
    for number in range(RUNS):
        words = [sys.executable, str(PROGRAM), redis_server.url, f"{name}-{number}", "cycles"]
        pipe = subprocess.PIPE
        with subprocess.Popen(words, stdout=pipe, stderr=pipe, text=True) as process:
            assert process.stdout is not None
            process.send_signal(end) if number % 2 else process.stdout.readline()
            process.send_signal(end)
            _, err = process.communicate(timeout=20)
        assert process.returncode in (0, -end, 1 if end == signal.SIGINT else 0), err


#: More than the exit has time to report.
SLOW = """
import logging, sys, time, redlock

what = sys.argv[1]
client = redlock.Redlock("memory://")
leases = [client.lock(f"job-{number}").acquire() for number in range(300)]


class Slow(logging.Handler):
    def emit(self, record):
        time.sleep(0.01)


if what == "handler":
    logging.getLogger("redlock").addHandler(Slow())
else:
    for lease in leases:
        lease.on_lost(lambda error: time.sleep(0.01))
client.close()
print("done", flush=True)
"""


@pytest.mark.parametrize("what", ["handler", "on_lost"])
@pytest.mark.slow("handlers that sleep, for longer than an exit waits")
def test_slow_handler_or_callback_does_not_block_the_exit(what: str) -> None:
    for _ in range(RUNS):
        done = run("-c", SLOW, what)
        assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr
        assert "Fatal" not in done.stderr, done.stderr
