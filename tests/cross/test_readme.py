"""The README's examples are the files of examples/quickstart: they run and do the same thing."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from .agents import ROOT, built
from .servers import Server

QUICKSTART = ROOT / "examples" / "quickstart"
FENCES = {"py": "python", "mjs": "js", "rs": "rust"}
SAID = "holding lock:orders:42\nreleased\n"


def example(extension: str) -> str:
    """The file, without the line that documents it as a crate."""
    return re.sub(r"\A//! .*\n\n", "", (QUICKSTART / f"quickstart.{extension}").read_text())


@pytest.mark.parametrize("extension", FENCES)
def test_readme_shows_the_file(extension: str) -> None:
    readme = (ROOT / "README.md").read_text()
    blocks = re.findall(rf"```{FENCES[extension]}\n(.*?)```", readme, re.DOTALL)
    assert example(extension) in blocks


def test_same_words_in_three_languages() -> None:
    """The comments differ only where a language does: throw, raise, fail; block, drop."""
    comments = [re.findall(r"(?:#|//) (.*)", example(extension)) for extension in FENCES]
    assert len({len(each) for each in comments}) == 1
    assert len({tuple(each[:2]) for each in comments}) == 1


def run(extension: str, source: str, folder: Path) -> str:
    """Runs an example from a copy beside the original, so that its imports mean the same."""
    match extension:
        case "rs":
            command = [built("--example", "quickstart")]
        case "py":
            command = [sys.executable, "-c", source]
        case _:
            command = ["node", "--input-type=module", "--eval", source]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("extension", FENCES)
def test_in_memory(extension: str) -> None:
    assert run(extension, example(extension), ROOT) == SAID


@pytest.mark.parametrize("extension", ["py", "mjs"])
def test_over_a_real_server(extension: str, five: list[Server]) -> None:
    source = example(extension).replace("memory://", five[0].url)
    assert run(extension, source, ROOT) == SAID
    assert five[0].get("lock:orders:42") is None
