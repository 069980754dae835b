"""Logs and warnings show no secret of vectors/secrets.toml, and foreign texts only escaped."""

import re
import tomllib
from typing import Any

import pytest
import redlock

from tests.fake import ROWS, TABLE, FakeServers
from tests.waiting import eventually

from .processes import run

SECRETS: dict[str, Any] = tomllib.loads((TABLE.parent / "secrets.toml").read_text())
TOKEN = re.compile("[0-9a-fA-F]{32}")
CONTROL_CHARACTERS = {*map(chr, range(32)), *map(chr, range(127, 160)), "\u2028", "\u202e"}


LOGS = """
import asyncio, logging, sys, redlock
logging.basicConfig(level=logging.DEBUG, stream=sys.stdout)
for url in sys.argv[1:]:
    with redlock.Redlock(url, node_timeout=3) as client:
        lock = client.lock("job", wait=0)
        try: lock.acquire()
        except redlock.QuorumUnavailable as error: logging.getLogger("app").warning("%s", error)
"""


def test_server_text_in_logs_has_no_password_and_one_line() -> None:
    # Servers that repeat a password, a token or their login.
    rows = SECRETS["said"] + [row for row in ROWS if "{asked}" in row["say"]]
    with FakeServers(rows) as fakes:
        out, err = run(LOGS, *fakes.urls.values()).communicate(timeout=60)
    assert err == ""
    assert out.count("***") >= 5, out
    assert out.count("DEBUG:redlock.node:no connection") >= len(rows) - len(SECRETS["said"]), out
    assert all(cause in out for row in rows for cause in row["cause"]), out
    assert "s3cret" not in out
    assert not TOKEN.search(out), out
    starts = re.compile(r"(DEBUG|INFO|WARNING):redlock\.\w+:|WARNING:app:|DEBUG:asyncio:")
    assert all(starts.match(line) for line in out.split("\n")[:-1]), out
    assert not (CONTROL_CHARACTERS - {"\n"}) & set(out), out


@pytest.mark.parametrize("name", [row["name"] for row in SECRETS["name"]])
def test_names_are_escaped_in_warnings_and_logs(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with redlock.Redlock("memory://") as client:
        lock = client.lock(name, wait=0.2)
        lease = lock.acquire()
        with pytest.raises(redlock.LockTimeout), pytest.warns(RuntimeWarning) as warned:
            lock.acquire()
        client.force_release(name)
        eventually(lambda: any("lease lost" in text for text in caplog.messages))
        assert not lease.held
    messages = [record.getMessage() for record in caplog.records if record.name != "asyncio"]
    for text in (*messages, *(str(warning.message) for warning in warned)):
        assert not CONTROL_CHARACTERS & set(text)
        assert not TOKEN.search(text), text
