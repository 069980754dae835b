"""The files of dist/, the Pythons to install them into, and how to run them."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
DIST = ROOT / "dist"

Install = Callable[..., Path]


def only(pattern: str) -> Path:
    """Returns the only file of dist/ that matches the pattern. `make wheels` leaves one."""
    (found,) = DIST.glob(pattern)
    return found


def interpreters() -> Iterator[Path]:
    """Yields this Python, those on the PATH and those installed beside it, of the versions that the wheel supports."""
    yield Path(sys.executable)
    for minor in range(11, 20):
        if on_path := shutil.which(f"python3.{minor}"):
            yield Path(on_path)
    yield from Path(sys.base_prefix).parent.glob("3.*/bin/python3")


def version_of(python: Path) -> tuple[int, ...]:
    said = subprocess.run([python, "--version"], capture_output=True, text=True).stdout
    return tuple(map(int, re.findall(r"\d+", said)))[:2]


PYTHONS = {v: python for python in interpreters() if (v := version_of(python)) >= (3, 11)}


def run(*command: object, cwd: Path | None = None, **environment: str) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        capture_output=True,
        text=True,
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
