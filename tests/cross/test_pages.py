"""Runs the code blocks of the README and the pages unchanged. The output of `print(...)  # text` must be that text."""

import os
import re
import subprocess
import sys
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
#: Run by tests/node/pages.test.mjs, which compiles `ts` first, and by cargo and test_readme.py. Commands that install
#: something are run by `make test-packages`.
ELSEWHERE = {"README.md": {"rust", "sh"}, "docs/node.md": {"ts"}, "docs/rust.md": {"rust"}}
PAGES = ["README.md", "docs/python.md", "docs/node.md", "docs/rust.md"]


def blocks(page: str) -> list[tuple[str, str]]:
    return re.findall(r"^```(\w*)\n(.*?)^```$", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)


def programs() -> Iterator[object]:
    for page in PAGES:
        for number, (language, code) in enumerate(blocks(page), 1):
            if language in RUN:
                yield pytest.param(page, language, code, id=f"{page}-{number}")


def test_every_block_is_run_by_some_test() -> None:
    for page in PAGES:
        languages = {language for language, _ in blocks(page)}
        assert languages <= {*RUN, *ELSEWHERE.get(page, ())}, page


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
    # The longer examples of the README have no such comments. test_readme.py knows their output.
    assert ran.stdout.splitlines() == claims or (page == "README.md" and not claims)
