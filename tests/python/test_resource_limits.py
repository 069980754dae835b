"""Exhausted resources: a clear error at the first use without files or threads, and a slow log handler."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers import Server

PROGRAMS = Path(__file__).with_name("programs")


@pytest.mark.parametrize("what", ["files", "threads"])
def test_first_use_names_the_exhausted_resource(redis_server: Server, what: str) -> None:
    environment = dict(os.environ)
    if what == "threads":
        # A stack size that no thread of redlock can have.
        environment["RUST_MIN_STACK"] = str(1 << 47)
    done = subprocess.run(
        [sys.executable, PROGRAMS / "resource_limits.py", redis_server.url, what],
        env=environment,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("as it should be\n")
    assert "panicked" not in done.stderr


# It takes 10 s of processor time, which four busy programs make ten times as long.
@pytest.mark.limit(300)
def test_slow_log_reports_dropped_records_and_calls_every_callback() -> None:
    command = [sys.executable, PROGRAMS / "slow_log.py", "11000"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert (done.stdout, done.returncode) == ("True 1 True True\n", 0), done.stderr
