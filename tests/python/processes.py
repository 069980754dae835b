"""Separate Python processes in which a warning is an error."""

import os
import subprocess
import sys
from typing import Any

started: "list[subprocess.Popen[str]]" = []


def run(code: str, *words: str, **options: Any) -> "subprocess.Popen[str]":
    """Starts a process that runs the code, and returns without waiting for it."""
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", code, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )
    started.append(process)
    return process


def output_of(code: str, **environment: str) -> str:
    """Runs the code to its end, without REDIS_URL and REDLOCK_* of the caller. Returns what it prints."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("RED")}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env=clean | environment,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def end_all() -> None:
    """Ends the processes that a failed test has left behind."""
    while started:
        with started.pop() as process:
            process.kill()
