"""The suite's tests of exits, threads, signals and forks against the installed wheel, with every supported Python.

The development build is a different binary, with another linker and another unwinder.
"""

import os
import sys
from pathlib import Path

import pytest

from .dist import PYTHONS, ROOT, Install, only, run

#: Repetitions of each test in which a process ends.
RUNS = int(os.environ.get("REDLOCK_TEST_EXITS", "20"))
TOOLS = ("pytest", "pytest-repeat", "redis", "gevent", "eventlet", "uvloop", "hiredis")
#: Excludes the start-up cost of such a process, and tests that need the machine for themselves.
ENDS = ("test_fork.py", "test_runtime.py", "-k", "ctrl_c or exit or interpreter or fork")
#: Decorated functions, patched processes, orderly ends, error classes, cancellation.
ONCE = (
    "test_decorator.py",
    "test_greenlets.py",
    "test_shutdown.py",
    "test_errors.py",
    "test_invalid_values.py",
    "test_scope.py",
    "test_cancel.py",
    "test_cancel_body.py",
    "test_event_loops.py",
)
IDS = [f"{major}.{minor}" for major, minor in sorted(PYTHONS)]


@pytest.fixture(scope="module", params=sorted(PYTHONS), ids=IDS)
def python(request: pytest.FixtureRequest, install: Install) -> Path:
    """Returns a Python with the wheel and the test dependencies."""
    inside = install(only("*.whl"), PYTHONS[request.param], "--no-index")
    run(inside, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", *TOOLS)
    where = "import redlock; print(redlock.__file__); print(hasattr(redlock._native, '_panic_for_tests'))"
    file, panics = run(inside, "-I", "-c", where).split()
    assert file.startswith(str(inside.parents[1]))
    assert panics == "False", "this is not what is published"
    return inside


def suite(python: Path, *words: str, **environment: str) -> None:
    files = [f"tests/python/{word}" if word.endswith(".py") else word for word in words]
    said = run(
        python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files, cwd=ROOT, **environment
    )
    summary = said.strip().splitlines()[-1]
    assert " passed" in summary, said
    assert "skipped" not in summary, said
    print(f"{python}: {summary}", file=sys.stderr)


@pytest.mark.limit(1200)
def test_threads_and_signals_at_the_end(python: Path) -> None:
    suite(python, "test_process_exit.py", REDLOCK_TEST_EXITS=str(RUNS), REDLOCK_TEST_LIMIT="600")


@pytest.mark.limit(1200)
def test_forks_interrupts_and_exits(python: Path) -> None:
    suite(python, *ENDS, f"--count={RUNS}")


@pytest.mark.limit(600)
def test_what_is_shipped_does_what_the_tree_does(python: Path) -> None:
    suite(python, *ONCE)
