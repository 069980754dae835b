"""Exhausted resources: a clear error at the first use without files or threads, and a slow log handler."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .servers import Server

PROGRAMS = Path(__file__).with_name("programs")


@pytest.mark.parametrize("what", ["files", "threads"])
def test_the_first_use_says_what_is_scarce(redis_server: Server, what: str) -> None:
    environment = dict(os.environ)
    if what == "threads":
        # A stack size that no thread of redlock can have.
        environment["RUST_MIN_STACK"] = str(1 << 47)
    done = subprocess.run(
        [sys.executable, PROGRAMS / "scarce.py", redis_server.url, what],
        env=environment,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("as it should be\n")
    assert "panicked" not in done.stderr


def test_a_log_that_is_too_slow_says_what_it_lacks_and_every_callback_is_called() -> None:
    command = [sys.executable, PROGRAMS / "floods.py", "11000"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert (done.stdout, done.returncode) == ("True 1 True True\n", 0), done.stderr
