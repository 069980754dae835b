"""The table of docs/contributing/replayed-tests.md matches these tests. UPDATE_TABLE=1 rewrites it."""

import os
from collections import defaultdict
from pathlib import Path

import pytest

from . import (
    test_aioredlock,
    test_aioredlock_nodes,
    test_pottery,
    test_python_redis_lock,
    test_python_redis_lock_django,
    test_redis_py,
    test_redlock_py,
)
from .cases import ROWS, VERDICTS, Source

PAGE = Path(__file__).parents[3] / "docs/contributing/replayed-tests.md"
BEGIN, END = "<!-- of tests/python/replay -->", "<!-- end -->"
SOURCES: list[Source] = [
    test_redis_py.THEIRS,
    test_python_redis_lock.THEIRS,
    test_python_redis_lock_django.THEIRS,
    test_pottery.THEIRS,
    test_redlock_py.THEIRS,
    test_aioredlock.THEIRS,
    test_aioredlock_nodes.THEIRS,
]
WORDS = {"none": "no equivalent"}


def libraries() -> list[str]:
    return list(dict.fromkeys(source.library for source in SOURCES))


def counts() -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(VERDICTS, 0))
    for source in SOURCES:
        for row in source.cases.values():
            found[source.library][ROWS[row]["verdict"]] += 1
    return found


def table() -> str:
    """Returns the number of cases per library and verdict, and then each row with its cases."""
    lines = [
        "| | cases | same | better | differs | no equivalent | worse |",
        "|---|---|---|---|---|---|---|",
    ]
    total = [0] * len(VERDICTS)
    for library, by_verdict in counts().items():
        numbers = list(by_verdict.values())
        total = [have + more for have, more in zip(total, numbers, strict=True)]
        lines.append(f"| {library} | {sum(numbers)} | {' | '.join(map(str, numbers))} |")
    lines.append(f"| all | {sum(total)} | {' | '.join(map(str, total))} |")
    lines += ["", "| behavior in their tests | redlock | their cases |", "|---|---|---|"]
    for row, text in ROWS.items():
        here = WORDS.get(text["verdict"], text["verdict"])
        here += f": {text['here']}" if "here" in text else ""
        lines.append(f"| {text['asks']} | {here} | {named(row)} |")
    return "\n".join(lines)


def named(row: str) -> str:
    parts = []
    for library in libraries():
        names = dict.fromkeys(
            name.removeprefix("test_").strip("_")
            for source in SOURCES
            if source.library == library
            for (_, name), at in source.cases.items()
            if at == row
        )
        if names:
            parts.append(f"{library} " + ", ".join(f"`{name}`" for name in names))
    return "; ".join(parts)


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.library)
def test_no_case_is_left_out(source: Source) -> None:
    found = dict.fromkeys(source.files, 0)
    for file, _ in source.cases:
        found[file] += 1
    assert found == source.files


def test_no_case_is_worse_and_every_difference_has_a_reason() -> None:
    used = {row for source in SOURCES for row in source.cases.values()}
    assert used == set(ROWS)
    for name, row in ROWS.items():
        assert row["verdict"] in VERDICTS, name
        assert row["verdict"] != "worse", name
        assert row["verdict"] == "same" or row["here"], name


def test_page_matches_the_replayed_cases() -> None:
    before, _, rest = PAGE.read_text().partition(BEGIN)
    old, _, after = rest.partition(END)
    if os.environ.get("UPDATE_TABLE"):
        PAGE.write_text(f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}")
    else:
        assert old.strip() == table(), "UPDATE_TABLE=1 writes the new table"
