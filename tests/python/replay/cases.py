"""Each test here is a case of another library's own tests, by meaning; rows.toml says how each meaning fares."""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Row = dict[str, str]
ROWS: dict[str, Row] = tomllib.loads((Path(__file__).with_name("rows.toml")).read_text())
VERDICTS = ("same", "better", "differs", "none", "worse")


@dataclass
class Source:
    """A library's test files, each with the number of its cases; a case may be in several of them."""

    library: str
    files: dict[str, int]
    #: (file, case) in the row that it belongs to.
    cases: dict[tuple[str, str], str] = field(default_factory=dict)

    def asks(self, row: str, *files: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """The test that it decorates is a case of these files, of all if none is named."""

        def note(test: Callable[..., Any]) -> Callable[..., Any]:
            name = test.__name__
            for file in files or self.files:
                assert row in ROWS, row
                assert (file, name) not in self.cases, f"{file} {name} is here twice"
                self.cases[file, name] = row
            return test

        return note
