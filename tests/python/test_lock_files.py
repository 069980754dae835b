"""Everything that is installed here is locked: every tool by version and hash, every crate by Cargo.lock. No registry
is named.
"""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GROUPS = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
#: A list leaves out what the lists of the included groups have.
WANTED = {
    f"scripts/{group}-requirements.txt": [name for name in names if isinstance(name, str)]
    for group, names in GROUPS.items()
} | {
    f"{folder}/requirements.txt": (ROOT / folder / "requirements.in").read_text().split()
    for folder in ("bench", "tests/migration")
}


def plain(requirement: str) -> str:
    """Returns the normalized name of a distribution."""
    (name,) = re.findall(r"^[\w.-]+", requirement)
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("path", WANTED)
def test_every_tool_has_a_version_and_a_hash(path: str) -> None:
    text = (ROOT / path).read_text()
    assert "://" not in text
    entries = re.findall(
        r"^(\w[^\\]*)\\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", text, re.M
    )
    locked = [entry for entry, _ in entries]
    said = [line for line in text.splitlines() if line and not line.startswith(("#", " "))]
    assert len(locked) == len(said)
    assert all(re.match(r"[\w.-]+==\d[\w.]*( ;.*)? $", entry) for entry in locked), locked
    assert {plain(name) for name in WANTED[path]} <= {plain(entry) for entry in locked}


def test_cargo_lock_is_up_to_date() -> None:
    command = ["cargo", "metadata", "--locked", "--format-version", "1"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True)
    assert found.returncode == 0, found.stderr.decode()
