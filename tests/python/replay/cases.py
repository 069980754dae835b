"""The test cases of other libraries, reproduced by meaning. rows.toml has the verdict on each."""

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
    """The test files of a library, each with the number of its cases. A case may be in several of them."""

    library: str
    files: dict[str, int]
    #: (file, case) in the row that it belongs to.
    cases: dict[tuple[str, str], str] = field(default_factory=dict)

    def asks(self, row: str, *files: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Marks the decorated test as a case of these files, or of all files if none is named."""

        def note(test: Callable[..., Any]) -> Callable[..., Any]:
            name = test.__name__
            for file in files or self.files:
                assert row in ROWS, row
                assert (file, name) not in self.cases, f"{file} {name} is here twice"
                self.cases[file, name] = row
            return test

        return note
