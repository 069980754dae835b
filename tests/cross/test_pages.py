"""Runs the code blocks of the README and the pages unchanged. The output of `print(...)  # text` must be that text."""

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from .agents import ROOT
from .servers import Server

LIMIT = 60.0
#: The command for each language, and its syntax for a print with an expected result.
RUN = {
    "python": ([sys.executable, "-W", "error", "-c"], r"^ *print\(.*\)  # (.*)$"),
    "js": (["node", "--input-type=module", "--eval"], r"^ *console\.log\(.*\); // (.*)$"),
}
#: Not programs: diagrams, shell commands and output.
OTHERS = {"", "mermaid", "sh", "text"}
#: Run by tests/node/pages.test.mjs, which compiles `ts` first, by cargo, and by test_fencing_example.py.
RUN_BY_OTHER_TESTS = {
    "docs/node.md": {"ts"},
    "docs/rust.md": {"rust"},
    "docs/concepts/fencing.md": {"lua", "sql"},
}
#: Their blocks are files, which tests/frameworks runs.
FILES = {"docs/frameworks.md"}
#: The quickstart of each language. test_readme.py runs the Rust one.
QUICKSTARTS = {
    re.sub(r"\A//! .*\n\n", "", file.read_text()): file.suffix
    for file in (ROOT / "examples/quickstart").iterdir()
}
QUICKSTART_OUTPUT = "holding lock:orders:42\nreleased\n"


def pages() -> list[str]:
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    names = [str(page.relative_to(ROOT)) for page in found if ".venv" not in page.parts]
    return [name for name in names if name not in FILES]


def blocks(page: str) -> list[tuple[str, str]]:
    """Returns the language and the code of each block. In a tab, blocks are indented."""
    text = (ROOT / page).read_text()
    found = re.findall(r"^( *)```(\w*)\n(.*?)^\1```$", text, re.MULTILINE | re.DOTALL)
    return [(language, textwrap.dedent(code)) for _, language, code in found]


def programs() -> Iterator[object]:
    for page in pages():
        for number, (language, code) in enumerate(blocks(page), 1):
            if language in RUN:
                yield pytest.param(page, language, code, id=f"{page}-{number}")


def test_every_block_is_run_by_some_test() -> None:
    found = 0
    for page in pages():
        for language, code in blocks(page):
            found += 1
            known = {*RUN, *OTHERS, *RUN_BY_OTHER_TESTS.get(page, ())}
            assert language in known or code in QUICKSTARTS, (page, code)
            # Output can only be that of the program before it.
            assert language != "text" or code == QUICKSTART_OUTPUT, (page, code)
    assert found > 80


def test_the_quickstart_is_on_its_pages() -> None:
    for page in ("README.md", "docs/index.md", "docs/get-started/quickstart.md"):
        assert QUICKSTARTS.keys() <= {code for _, code in blocks(page)}, page


@pytest.mark.parametrize(("page", "language", "code"), [*programs()])
def test_a_block_does_what_it_says(page: str, language: str, code: str, tmp_path: Path) -> None:
    command, printing = RUN[language]
    with Server() as server:
        # Node.js resolves the package by its own name only inside this tree.
        environment = {**os.environ, "REDIS_URL": server.url, "REDLOCK_NODES": ""}
        folder = ROOT if language == "js" else tmp_path
        ran = subprocess.run(
            [*command, code],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )
    assert ran.returncode == 0, ran.stderr
    claims = re.findall(printing, code, re.MULTILINE)
    assert ran.stdout.splitlines() == (
        QUICKSTART_OUTPUT.splitlines() if code in QUICKSTARTS else claims
    )
