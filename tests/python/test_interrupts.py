"""A Ctrl-C between the grant of a lease and the code that releases it."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).with_name("programs")


def output(program: str, *words: str) -> str:
    command = [sys.executable, PROGRAMS / program, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert (done.stderr, done.returncode) == ("", 0)
    return done.stdout


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_interrupt_at_any_step_of_an_exit_stack_leaves_no_key(kind: str) -> None:
    assert output("interrupted_stack.py", kind) == "[] True []\n"


@pytest.mark.parametrize("call", ["acquire", "try_acquire", "with", "stack"])
def test_interrupt_before_a_call_returns_its_lease_leaves_no_key(call: str) -> None:
    assert output("interrupted_return.py", call) == "None False 0\n"


def test_lock_works_while_a_module_it_needs_is_being_imported() -> None:
    """A signal handler that interrupts an import finds the module without its contents."""
    assert output("unfinished_import.py") == "True True\n"
