"""The claims about fencing hold: the example with frozen processes, and the guards on the page."""

import re
import sqlite3
import subprocess
import sys

import pytest

from tests.servers import Server

from .agents import ROOT

PAGE = (ROOT / "docs/concepts/fencing.md").read_text()
HOW_TO = (ROOT / "docs/how-to/fence.md").read_text()
# An older holder's token, the newer one's twice, and the late write of the older holder.
WRITES = [("old", 9, True), ("new", 10, True), ("new again", 10, True), ("too late", 9, False)]


def snippet(language: str, page: str = PAGE) -> str:
    (code,) = re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)
    return str(code)


@pytest.mark.slow("holders are really frozen beyond their ttl")
def test_the_example_refuses_a_frozen_holders_write() -> None:
    demo = [sys.executable, ROOT / "examples/fencing/demo.py"]
    run = subprocess.run(demo, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.count("runs again (SIGCONT) and writes: refused, 412") == 2, run.stdout
    assert run.stdout.count("receives LockLost, expired") == 3, run.stdout


def test_the_how_to_has_the_same_statement() -> None:
    statement = snippet("sql")
    assert snippet("sql", HOW_TO) == statement
    assert f'"{statement.strip()}"' in HOW_TO


def test_the_guard_in_sql() -> None:
    rows = sqlite3.connect(":memory:", isolation_level=None)
    rows.execute("CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance, token DEFAULT 0)")
    rows.execute("INSERT INTO accounts (id) VALUES (1)")
    for balance, token, accepted in WRITES:
        values = {"balance": balance, "token": token, "id": 1}
        assert (rows.execute(snippet("sql"), values).rowcount == 1) is accepted, values
    assert rows.execute("SELECT balance, token FROM accounts").fetchall() == [("new again", 10)]
    rows.close()


def test_the_guard_in_redis(five: list[Server], name: str) -> None:
    for value, token, accepted in WRITES:
        answer = five[0].command("EVAL", snippet("lua"), 1, name, value, token)
        assert (answer == 1) is accepted, (value, token)
    assert five[0].command("HGETALL", name) == {"value": "new again", "token": "10"}
