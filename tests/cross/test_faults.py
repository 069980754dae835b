"""Every test that docs/contributing/faults.md and setups.md name exists in the given file."""

import re

from .agents import ROOT

FILES = [
    "tests/conformance/*.py",
    "tests/python/*.py",
    "tests/cross/*.py",
    "tests/node/*.mjs",
    "tests/rust/**/*.rs",
]


def test_every_test_that_the_list_names_exists() -> None:
    table = (ROOT / "docs/contributing/faults.md").read_text()
    rows = [line for line in table.splitlines() if line.startswith("| ")]
    named = {name for row in rows for name in re.findall("`([^`]+)`", row.rsplit(" | ", 1)[1])}
    assert len(named) > 60
    text = "\n".join(path.read_text() for glob in FILES for path in ROOT.glob(glob))
    missing = [name for name in named if not re.search(rf'(fn |def |["` ]){re.escape(name)}', text)]
    assert not missing


def test_every_test_of_a_setup_is_in_its_file() -> None:
    """Checks references of the form `file`: `test`, `test` and so on."""
    page = (ROOT / "docs/contributing/setups.md").read_text()
    found = 0
    for match in re.finditer(
        r"`([a-z_]+\.(?:rs|py))`(?: in `([a-z/]+)`)?:\s+((?:`\w+`(?:, )?)+)", page
    ):
        name, folder, tests = match.groups()
        default = "tests/rust" if name.endswith(".rs") else "tests/cross"
        # Tests of the slow tier are in a folder below.
        files = [*(ROOT / (folder or default)).glob(f"**/{name}")]
        assert files, name
        text = "\n".join(file.read_text() for file in files)
        for test in re.findall(r"`(\w+)`", tests):
            found += 1
            assert re.search(rf"(fn|def) {test}\b", text), (name, test)
    assert found > 20
