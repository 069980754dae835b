"""scripts/release: one command writes the version of a release everywhere."""

import fnmatch
import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from .agents import ROOT

FILES = ["Cargo.toml", "package.json", "package-lock.json", "CHANGELOG.md", "scripts/release"]
ENTRY = "- **A change** that users notice.\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Copies the files that the script writes, with one unreleased entry."""
    for name in FILES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    page = tmp_path / "CHANGELOG.md"
    text = re.sub(r"(?s)## Unreleased\n.*?(?=\n## |\Z)", "", page.read_text())
    head, *versions = text.split("\n## ", 1)
    page.write_text("\n## ".join([head, f"Unreleased\n\n{ENTRY}", *versions]))
    return tmp_path


def release(tree: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, str(tree / "scripts/release"), *words]
    return subprocess.run(command, cwd=tree, capture_output=True, text=True, timeout=30)


def test_one_command_writes_the_version_everywhere(tree: Path) -> None:
    done = release(tree, "--dry-run", "98.7.6")
    assert done.returncode == 0, done.stderr
    cargo = tomllib.loads((tree / "Cargo.toml").read_text())["workspace"]
    assert cargo["package"]["version"] == "98.7.6"
    assert cargo["dependencies"]["redlock-native"]["version"] == "98.7.6"
    lock = json.loads((tree / "package-lock.json").read_text())
    assert lock["version"] == lock["packages"][""]["version"] == "98.7.6"
    assert json.loads((tree / "package.json").read_text())["version"] == "98.7.6"
    text = (tree / "CHANGELOG.md").read_text()
    assert f"\n## Unreleased\n\n## 98.7.6\n\n{ENTRY}" in text


def test_release_without_entries_is_refused(tree: Path) -> None:
    page = tree / "CHANGELOG.md"
    page.write_text(page.read_text().replace(ENTRY, ""))
    done = release(tree, "--dry-run", "98.7.6")
    assert done.returncode == 1
    assert "no entries under `## Unreleased`" in done.stderr
    assert (tree / "package.json").read_bytes() == (ROOT / "package.json").read_bytes()


@pytest.mark.parametrize("word", ["", "v1.0.0", "1.0", "next", "--help"])
def test_what_is_not_a_version_is_refused(tree: Path, word: str) -> None:
    done = release(tree, "--dry-run", word)
    assert done.returncode == 1
    assert "usage: scripts/release" in done.stderr


def test_wheels_makes_each_build_run_again() -> None:
    """It replaces the Node.js binary that the builds put in place, so no stamp of a build may stay."""
    (removed,) = re.findall(r"^rm -f (target/\S+)$", (ROOT / "scripts/wheels").read_text(), re.M)
    for profile in ("dev", "release"):
        command = ["make", "--print-data-base", "--question", f"PROFILE={profile}", "help"]
        printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
        (stamp,) = re.findall(r"^BUILT := (.*)$", printed.stdout, re.M)
        assert fnmatch.fnmatch(stamp.replace("$(PROFILE)", profile), removed)
