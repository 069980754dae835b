"""docs/operate/servers.md describes each server as it was tested."""

import os
from pathlib import Path

import pytest

from .features import FEATURES, column

PAGE = Path(__file__).parents[2] / "docs/operate/servers.md"


@pytest.mark.slow("renewal beyond a ttl, for each feature of a server")
def test_page_matches_the_features_of_this_server() -> None:
    program = os.environ.get("REDLOCK_TEST_SERVER", "redis-server")
    try:
        name, words = column(program)
    finally:
        os.environ.pop("REDLOCK_TEST_SERVER")
        if program != "redis-server":
            os.environ["REDLOCK_TEST_SERVER"] = program
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in PAGE.read_text().splitlines()
        if line.startswith("|")
    ]
    (head,) = [row for row in rows if name in row]
    said = {row[0]: row[head.index(name)] for row in rows if len(row) == len(head)}
    assert [said.get(feature) for feature, _ in FEATURES] == words
