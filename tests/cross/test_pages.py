"""Runs the code blocks of the README and the pages unchanged. The output of `print(...)  # text` must be that text."""

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.servers import Server

from .agents import ROOT

LIMIT = 60.0
#: The command for each language, and its syntax for a print with an expected result.
RUN = {
    "python": ([sys.executable, "-W", "error", "-c"], r"^ *print\(.*\)  # (.*)$"),
    "js": (["node", "--input-type=module", "--eval"], r"^ *console\.log\(.*\); // (.*)$"),
}
#: Run by tests/pages as doc tests, and by tests/node/pages.test.mjs, which compiles them first.
ELSEWHERE = {"rust", "ts"}
#: Not programs: diagrams, shell commands and output.
OTHERS = {"", "mermaid", "sh", "text", "yaml"}
#: Run by test_fencing_example.py.
FENCING = {"docs/concepts/fencing.md": {"lua", "sql"}, "docs/how-to/fence.md": {"sql"}}
#: Parts of programs that `make test-examples` runs.
EXAMPLES = {"payments.rs": ROOT / "examples/rust/src/payments.rs"}
#: The quickstart of each language. test_readme.py runs the Rust one.
QUICKSTARTS = {
    re.sub(r"\A//! .*\n\n", "", file.read_text()): file.suffix
    for file in (ROOT / "examples/quickstart").glob("quickstart.*")
}
QUICKSTART_OUTPUT = "holding lock:orders:42\nreleased\n"


class Block(NamedTuple):
    language: str
    #: The name of a file, or "". tests/frameworks runs these.
    file: str
    code: str


def pages() -> list[str]:
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [str(page.relative_to(ROOT)) for page in found if ".venv" not in page.parts]


def blocks(page: str) -> list[Block]:
    """Returns the blocks of a page. In a tab, blocks are indented."""
    text = (ROOT / page).read_text()
    pattern = r"^( *)```(\w*)(?: (\S+))?\n(.*?)^\1```$"
    found = re.findall(pattern, text, re.MULTILINE | re.DOTALL)
    return [Block(language, file, textwrap.dedent(code)) for _, language, file, code in found]


def programs() -> Iterator[object]:
    for page in pages():
        for number, block in enumerate(blocks(page), 1):
            if block.language in RUN and not block.file:
                yield pytest.param(page, block.language, block.code, id=f"{page}-{number}")


def test_how_to_says_which_pages_have_tabs() -> None:
    text = (ROOT / "docs/how-to/index.md").read_text()
    listed = text.split("Six pages have no tabs:")[1].split("\n\n| task")[0]
    without = set()
    for page in sorted((ROOT / "docs/how-to").glob("*.md")):
        tabs = set(re.findall(r'^=== "(.*)"', page.read_text(), re.MULTILINE))
        if not tabs and page.name != "index.md":
            without.add(page.name)
        assert tabs in (set(), {"Python", "Node.js", "Rust"}), page
    assert set(re.findall(r"\(([\w-]+\.md)\)", listed)) == without


def test_readiness_probe_fails_within_the_guard(tmp_path: Path) -> None:
    (block,) = [b.code for b in blocks("docs/operate/kubernetes.md") if b.language == "yaml"]
    (command,) = re.findall(r'\[sh, -c, "(.*)"\]', block)
    command_line = tmp_path / "redis-cli"
    found = []
    for seconds in (3, 61, 62, 100):
        # The server ends lines in this way.
        reply = f"# Server\\r\\nuptime_in_seconds:{seconds}\\r\\nuptime_in_days:0\\r\\n"
        command_line.write_text(f"#!/bin/sh\nprintf '{reply}'\n")
        command_line.chmod(0o755)
        path = f"{tmp_path}:{os.environ['PATH']}"
        done = subprocess.run(["sh", "-c", command], env={**os.environ, "PATH": path})
        found.append(done.returncode == 0)
    assert found == [False, False, True, True]
    assert f'"{command}"' in (ROOT / "examples/kubernetes/servers.yaml").read_text()


def test_every_block_is_run_by_some_test() -> None:
    found = 0
    for page in pages():
        for language, file, code in blocks(page):
            found += 1
            known = {*RUN, *ELSEWHERE, *OTHERS, *FENCING.get(page, ())}
            assert language in known or code in QUICKSTARTS, (page, code)
            # The tests of the recipes check that they run each file.
            assert not file or page.startswith("docs/how-to/"), (page, file)
            # Output can only be that of the program before it.
            assert language != "text" or code == QUICKSTART_OUTPUT, (page, code)
    assert found > 80


def test_no_fence_is_left_over() -> None:
    """A block whose end has another indentation would be part of the next one."""
    for page in pages():
        text = (ROOT / page).read_text()
        fences = len(re.findall(r"^ *```", text, re.MULTILINE))
        assert fences == 2 * len(blocks(page)), page


#: A call of the default client.
DEFAULT_CLIENT = {
    "python": re.compile(r"\bredlock\.lock\("),
    "js": re.compile(r'^import \{.*\b(lock|withLock)\b.*"redlock-native"', re.MULTILINE),
}
#: What makes it the client of a test.
REPLACED = ("configure(", "redlock_default")
NEEDS_SERVER = "Examples that create no client need a [server](../get-started/install.md#server)."


def test_pages_that_use_the_default_client_say_what_it_needs() -> None:
    """Without a server, their examples would fail for a new user after ten seconds."""
    found = set()
    for page in pages():
        for language, file, code in blocks(page):
            uses = language in DEFAULT_CLIENT and DEFAULT_CLIENT[language].search(code)
            if uses and not file and not any(word in code for word in REPLACED):
                found.add(page)
    assert len(found) > 4
    assert {page for page in found if NEEDS_SERVER not in (ROOT / page).read_text()} == set()


def test_every_page_begins_with_a_sentence() -> None:
    """A reader who arrives from a search learns first what the page is about."""
    # scripts/site fills this page.
    pages_with_text = {*pages()} - {"docs/reference/rust.md"}
    starts = {page: (ROOT / page).read_text().split("\n\n", 2)[1] for page in pages_with_text}
    assert {page: start for page, start in starts.items() if not re.match(r"[*[`]*\w", start)} == {}


def test_functions_that_the_architecture_names_exist() -> None:
    folders = ["core/src", "bindings-python/src", "bindings-python/python", "bindings-node/src"]
    declared = {
        name
        for folder in folders
        for path in (ROOT / folder).rglob("*.[rp][sy]")
        for name in re.findall(r"\b(?:fn|def) (\w+)", path.read_text())
    }
    page = (ROOT / "docs/contributing/architecture.md").read_text()
    table = page.split("## Where to look")[1].split("\n## ")[0]
    # A file name has another dot, and a word behind a path is a module or a function.
    named = set(re.findall(r"`(?:\w+(?:::|\.))*([a-z_]+)`", table)) - {"lua", "py", "rs", "ts"}
    assert not named - declared


def test_the_quickstart_is_on_its_pages() -> None:
    for page in ("README.md", "docs/index.md", "docs/get-started/quickstart.md"):
        assert QUICKSTARTS.keys() <= {block.code for block in blocks(page)}, page


def test_parts_of_examples_are_those_of_the_files() -> None:
    shown = {block.file: block.code for page in pages() for block in blocks(page)}
    for name, file in EXAMPLES.items():
        assert shown[name] in file.read_text(), name


def test_every_file_has_a_test() -> None:
    """The tests that run the files name each of them."""
    tests = "".join(
        file.read_text()
        for file in [
            ROOT / "tests/frameworks/test_frameworks.py",
            ROOT / "tests/frameworks/node/frameworks.test.mjs",
            ROOT / "tests/packages/bundlers/next.test.mjs",
        ]
    )
    names = {block.file for page in pages() for block in blocks(page)} - {"", *EXAMPLES}
    assert len(names) > 10
    assert {name for name in names if Path(name).stem not in tests} == set()


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
