"""`redlock.otel` in signal handlers, in forked children, and for locks with long keys."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("programs") / "interrupted_spans.py"


def run_program(mode: str) -> Any:
    """Returns the JSON output of the program. A child that hangs is ended by its alarm."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", PROGRAM, mode],
        capture_output=True,
        text=True,
        timeout=30,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("mode", ["handler", "fork", "setup"])
def test_interrupted_instruments_block_no_handler_and_no_child(mode: str) -> None:
    assert run_program(mode) == [True]


def test_forked_child_ends_no_span_of_its_parent() -> None:
    assert run_program("parent") == [True]


def test_hold_span_of_a_long_or_escaped_key_ends() -> None:
    assert run_program("long") == [True, True, True]
