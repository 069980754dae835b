"""What CI does not run, such as the tests of the packages, names test files that exist."""

import re
from collections.abc import Iterator
from pathlib import Path

from .agents import ROOT

#: Files and folders whose mistakes no run of CI shows.
UNTESTED = (
    *("Makefile", "CONTRIBUTING.md", "bench", "docs", "scripts"),
    *("tests/frameworks", "tests/migration", "tests/packages", "tests/README.md"),
)
#: Pages that also name the files of other libraries, or files of earlier versions.
OTHERS = ("replayed-tests.md", "regressions.md")
KINDS = {".md", ".mjs", ".py", ".sh", ""}
NAMED = re.compile(r"[\w./-]*(?:[\w-]+\.test\.mjs|\btest_\w+\.py)\b")
SKIPPED = {"node_modules", ".venv", "__pycache__", "dist", "out"}


def files(place: Path) -> Iterator[Path]:
    if place.is_file():
        yield place
    for path in place.iterdir() if place.is_dir() else ():
        if path.name not in SKIPPED:
            yield from files(path)


def test_named_test_files_exist() -> None:
    known = [f"/{path.relative_to(ROOT)}" for path in files(ROOT / "tests")]
    sources = [path for place in UNTESTED for path in files(ROOT / place)]
    named = {
        (name, source)
        for source in sources
        if source.suffix in KINDS and source.name not in OTHERS
        for name in NAMED.findall(source.read_text())
    }
    assert len(named) > 150
    missing = {
        f"{source.relative_to(ROOT)} names {name}"
        for name, source in named
        if not any(path.endswith(f"/{name.lstrip('./')}") for path in known)
    }
    assert not missing
