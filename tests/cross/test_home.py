"""One command writes the repository's address into the metadata and the READMEs of three packages."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from .agents import ROOT

READMES = ["core/README.md", "bindings-python/README.md", "bindings-node/README.md"]
FILES = ["Cargo.toml", "core/Cargo.toml", "pyproject.toml", "package.json", "README.md"]
FILES += [*READMES, "scripts/home", "scripts/readmes"]
FIRST, SECOND = "https://example.org/locks/redlock", "https://example.net/redlock-moved"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Copies the files that the script reads and writes, in their state before any address is filled in."""
    for name in FILES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def home(tree: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, str(tree / "scripts/home"), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=30)


def test_one_command_fills_it_in_everywhere(tree: Path) -> None:
    """The same command also changes an existing address."""
    unfilled = "\nrepository = " not in (tree / "Cargo.toml").read_text()
    assert (home(tree, "--check").returncode != 0) is unfilled
    for address in (FIRST, SECOND):
        # The URL of a clone is accepted too.
        assert home(tree, f"{address}.git").returncode == 0
        assert home(tree, "--check").stdout == f"{address}\n"
        cargo = tomllib.loads((tree / "Cargo.toml").read_text())
        assert cargo["workspace"]["package"]["repository"] == address
        crate = tomllib.loads((tree / "core/Cargo.toml").read_text())
        assert crate["package"]["repository"] == {"workspace": True}
        assert crate["package"]["documentation"].endswith("/redlock-native")
        urls = tomllib.loads((tree / "pyproject.toml").read_text())["project"]["urls"]
        assert urls["Repository"] == address
        assert urls.keys() >= {"Repository", "Documentation", "Changelog", "Issues"}
        manifest = json.loads((tree / "package.json").read_text())
        assert manifest["repository"]["url"] == f"git+{address}.git"
        assert manifest["bugs"] == urls["Issues"] == f"{address}/issues"
        links = []
        for name in READMES:
            text = (tree / name).read_text()
            assert not re.search(
                "in a clone|of this clone|No package is published|path/to", text
            ), name
            links += re.findall(r"\]\(([^)#]+)[^)]*\)", (tree / name).read_text())
        assert len(links) > 60
        for link in [*links, urls["Documentation"], urls["Changelog"]]:
            if link.startswith(address):
                path = re.sub("^/(blob|raw)/main/", "", link.removeprefix(address))
                assert (ROOT / path).exists(), link
            else:
                assert re.match("https?:", link), f"leads nowhere on a package index: {link}"
    # No other metadata of the packages changed.
    for name in ("package.json", "pyproject.toml"):
        read = json.loads if name == "package.json" else tomllib.loads
        ours, theirs = (read((each / name).read_text()) for each in (ROOT, tree))
        if name == "pyproject.toml":
            ours, theirs = ours["project"], theirs["project"]
        assert not unfilled or {key: theirs[key] for key in ours} == ours


@pytest.mark.parametrize("name", READMES)
@pytest.mark.parametrize("address", [None, FIRST])
def test_readme_of_a_package_begins_in_its_language(
    tree: Path, name: str, address: str | None
) -> None:
    """A registry shows it without the other files, so it has absolute links, or none before there is an address."""
    if address:
        assert home(tree, address).returncode == 0
    else:
        subprocess.run([sys.executable, str(tree / "scripts/readmes")], check=True, timeout=30)
    text = (tree / name).read_text()
    index = READMES.index(name)
    language = ["Rust", "Python", "Node.js"][index]
    code, install = [("rust", "cargo add"), ("python", "pip install"), ("js", "npm install")][index]
    _, sentence, example = text.split("\n\n")[:3]
    assert f"for {language}, with" in sentence
    assert example.startswith(f"```{code}\n")
    assert f"\n{install} " in text
    assert f"\n{install} redlock-native" in text or not address
    for link in re.findall(r"\]\(([^)]+)\)", text):
        assert re.match("https://|#", link), link


@pytest.mark.parametrize("word", ["", "redlock", "http://example.org/x", "https://a b", "--help"])
def test_invalid_address_is_refused_and_changes_nothing(tree: Path, word: str) -> None:
    done = home(tree, word)
    assert done.returncode != 0
    assert "usage: scripts/home" in done.stderr
    assert all((tree / name).read_bytes() == (ROOT / name).read_bytes() for name in FILES)


def test_nothing_is_published_before() -> None:
    steps = (ROOT / ".github/workflows/publish.yml").read_text()
    assert steps.count("scripts/home --check") == 3


WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


def test_actions_and_tools_of_the_workflows_are_pinned() -> None:
    """As docs/operate/security.md states."""
    found = []
    for file in WORKFLOWS:
        text = file.read_text()
        for action in re.findall(r"uses: (.*)", text):
            found.append(action)
            assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v[\d.]+", action), action
        for command in re.findall(r"(?:pip|npm|cargo) (?:install|ci)\b[^\n&]*", text):
            found.append(command)
            exact = ("--require-hashes", "npm ci", " dist/*.whl")
            versions = re.search(r"--locked --version =\d+\.\d+\.\d+", command)
            assert versions or any(word in command for word in exact), command
    assert len(found) > 30


def test_a_workflow_runs_each_test_target() -> None:
    """What no workflow runs breaks without notice."""
    text = "".join(file.read_text() for file in WORKFLOWS)
    targets = set(re.findall(r"^(test[a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    parts = {"test", "test-rust", "test-python", "test-node"}  # `.ci/run` runs them
    assert targets > parts
    assert {each for each in targets - parts if not re.search(rf"\b{each}(?![\w-])", text)} == set()


def test_workflow_installs_maturin_of_the_lock_file() -> None:
    """Without its hashes, pip would refuse it."""
    steps = (ROOT / ".github/workflows/packages.yml").read_text()
    commands = set(re.findall(r"run: (sed .*?) >maturin.txt && .*--require-hashes", steps))
    assert len(commands) == 1
    done = subprocess.run(["bash", "-c", *commands], cwd=ROOT, capture_output=True, text=True)
    first, *hashes = done.stdout.splitlines()
    assert re.fullmatch(r"maturin==[\d.]+ \\", first)
    assert len(hashes) > 5
    assert all(re.fullmatch(r"    --hash=sha256:\w{64}( \\)?", line) for line in hashes)
    assert not hashes[-1].endswith("\\")


def test_published_files_get_provenance() -> None:
    steps = (ROOT / ".github/workflows/publish.yml").read_text()
    assert "attestations: true" in steps
    assert "npm publish --provenance" in steps
    assert steps.count("id-token: write") == 3
    assert "cargo publish --locked --package redlock-native" in steps
