"""The result of type checkers for the package in this tree. `packages/` checks the published one."""

import os
import subprocess
import sys
from pathlib import Path

import redlock

ROOT = Path(__file__).parents[2]
TYPED = ROOT / "tests/packages/python/typed.py"


def test_mypy_infers_results_and_rejects_wrong_calls(tmp_path: Path) -> None:
    mypy = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file=",
        "--cache-dir",
        str(tmp_path),
    ]
    done = subprocess.run(
        [*mypy, str(TYPED)],
        env=os.environ | {"MYPYPATH": str(Path(redlock.__file__).parent.parent)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
