"""Separate Python processes in which a warning is an error."""

import subprocess
import sys
from typing import Any

started: "list[subprocess.Popen[str]]" = []


def run(code: str, *words: str, **options: Any) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", code, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )
    started.append(process)
    return process


def end_all() -> None:
    """Ends the processes that a failed test has left behind."""
    while started:
        with started.pop() as process:
            process.kill()
