"""The time limit of the tests, and child processes where SIGINT is ignored."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

HANGS = """
import ctypes, signal, time

def test_in_python():
    try:
        while True: time.sleep(60)
    except Exception:
        pass

def test_afterwards():
    pass

def test_in_native_code():
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
    ctypes.PyDLL(None).sleep(600)  # with the GIL
"""


def pytest(*words: str, limit: str = "120", before: str = "") -> "subprocess.CompletedProcess[str]":
    command = f'{before} exec "$@"'
    arguments = ["bash", "-c", command, "bash", sys.executable, "-m", "pytest", "-q", *words]
    environment = os.environ | {"REDLOCK_TEST_LIMIT": limit, "REDLOCK_TEST_GRACE": "1"}
    return subprocess.run(
        arguments, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=100
    )


def test_hanging_test_fails_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "test_hangs.py").write_text(HANGS)
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    done = pytest("-p", "no:cacheprovider", str(tmp_path), limit="1")
    assert done.returncode == 1
    said = done.stdout + done.stderr
    assert "test_hangs.py::test_in_python (call)\n" in said
    # The test in native code ends the run, and the stack names it. The tests before it had finished.
    assert "in test_in_native_code" in said
    assert "F." in said


def test_ctrl_c_tests_pass_where_sigint_is_ignored() -> None:
    """As in a background job of a script."""
    tests = ("tests/python/test_runtime.py", "-k", "ctrl_c and memory or ctrl_c_at")
    done = pytest(*tests, before="trap '' INT;")
    assert done.returncode == 0, done.stdout
