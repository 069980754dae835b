"""docs/faults.md names tests: each of them exists."""

import re

from .agents import ROOT

FILES = ["tests/python/*.py", "tests/cross/*.py", "tests/node/*.mjs", "tests/rust/*.rs"]


def test_every_test_that_the_list_names_exists() -> None:
    table = (ROOT / "docs" / "faults.md").read_text()
    rows = [line for line in table.splitlines() if line.startswith("| ")]
    named = {name for row in rows for name in re.findall("`([^`]+)`", row.rsplit(" | ", 1)[1])}
    assert len(named) > 60
    text = "\n".join(path.read_text() for glob in FILES for path in ROOT.glob(glob))
    missing = [name for name in named if not re.search(rf'(fn |def |["` ]){re.escape(name)}', text)]
    assert not missing
