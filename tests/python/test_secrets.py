"""Passwords, keys and foreign texts (vectors/secrets.toml): what is never shown, and what is shown only escaped."""

import pickle
import re
from pathlib import Path
from typing import Any

import pytest
import redlock

from tests.fake import ROWS, FakeServers
from tests.servers import Server
from tests.waiting import eventually

from .processes import run
from .test_vectors import about, table

SECRETS = table("secrets")
TOKEN = re.compile("[0-9a-fA-F]{32}")
CONTROL_CHARACTERS = {*map(chr, range(32)), *map(chr, range(127, 160)), "\u2028", "\u202e"}


def check(error: BaseException, words: list[str]) -> None:
    """Checks that the error contains the required text, and that no format of it contains a secret."""
    text = str(error)
    for word in words:
        assert word in text
    # The resource is the exact key.
    values = {name: value for name, value in vars(error).items() if name != "resource"}
    forms = [text, repr(error), repr(values), repr(pickle.loads(pickle.dumps(error)))]
    forms += [repr(node) for node in getattr(error, "nodes", ())]
    assert not any("s3cret" in form for form in (*forms, str(pickle.dumps(error)))), forms
    assert not CONTROL_CHARACTERS & set("".join(forms)), forms
    assert not any(map(TOKEN.search, forms)), forms
    assert len(text) < 1000


def refused(*args: Any, **options: Any) -> BaseException:
    with pytest.raises(redlock.InvalidOption) as caught:
        redlock.Redlock(*args, **options)
    return caught.value


@pytest.mark.parametrize("row", SECRETS["refused"], ids=about)
def test_refused_url_is_not_quoted(row: dict[str, Any]) -> None:
    check(refused(row["nodes"]), row["says"])
    if len(row["nodes"]) == 1:
        check(refused(row["nodes"][0]), row["says"])


@pytest.mark.parametrize("row", SECRETS["tls"], ids=about)
def test_refused_tls_path_is_not_quoted(row: dict[str, Any]) -> None:
    for kind in (str, Path):
        options = {f"tls_{name}": kind(text) for name, text in row["options"].items()}
        check(refused("rediss://127.0.0.1:1", **options), row["says"])


@pytest.mark.parametrize("row", SECRETS["accepted"], ids=about)
def test_accepted_password_is_not_shown(row: dict[str, Any]) -> None:
    with redlock.Redlock(row["nodes"]) as client:
        lock = client.lock("job", wait=0)
        with pytest.raises(redlock.QuorumUnavailable) as caught:
            lock.acquire()
        check(caught.value, [])
        assert "s3cret" not in f"{client!r} {client} {lock!r} {client.nodes}"


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
    with FakeServers(SECRETS["said"]) as fakes:
        out, err = run(LOGS, *fakes.urls.values()).communicate(timeout=60)
    assert err == ""
    assert out.count("***") >= 5, out
    assert "s3cret" not in out
    assert not TOKEN.search(out), out
    starts = re.compile(r"(DEBUG|INFO|WARNING):redlock\.\w+:|WARNING:app:|DEBUG:asyncio:")
    assert all(starts.match(line) for line in out.split("\n")[:-1]), out
    assert not (CONTROL_CHARACTERS - {"\n"}) & set(out), out


@pytest.mark.parametrize("row", SECRETS["name"], ids=about)
def test_names_are_escaped_in_messages_and_unchanged_in_keys(
    row: dict[str, Any], redis_server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    with redlock.Redlock(redis_server.url) as client:
        lock = client.lock(row["name"], wait=0.2)
        lease = lock.acquire()
        assert lease.key == f"lock:{row['name']}"
        assert redis_server.client.exists(lease.key)
        with pytest.raises(redlock.LockTimeout) as caught, pytest.warns(RuntimeWarning) as warned:
            lock.acquire()
        assert caught.value.resource == lease.key
        for text in (str(caught.value), *(str(warning.message) for warning in warned), repr(lock)):
            assert row["shown"] in text
            assert not CONTROL_CHARACTERS & set(text)
            assert not TOKEN.search(text), text
        client.force_release(row["name"])
        eventually(lambda: any("lease lost" in record.getMessage() for record in caplog.records))
        messages = [record.getMessage() for record in caplog.records if record.name != "asyncio"]
        assert not any(CONTROL_CHARACTERS & set(text) or TOKEN.search(text) for text in messages)
        with pytest.raises(redlock.LockLost) as lost:
            lease.ensure_held()
        assert row["shown"] in str(lost.value)
        assert not CONTROL_CHARACTERS & set(f"{lost.value} {lease!r}")
        assert not TOKEN.search(f"{lost.value} {lease!r}")


LOGGED = """
import logging, sys, redlock
logging.basicConfig(level=logging.DEBUG, stream=sys.stdout)
for url in sys.argv[1:]:
    with redlock.Redlock(url, node_timeout=3) as client:
        try: client.lock("job").acquire(wait=0)
        except redlock.QuorumUnavailable as error: print(repr(error), client, error.nodes)
"""


def test_a_password_that_a_server_repeats_is_not_shown_or_logged() -> None:
    rows = [row for row in ROWS if "{asked}" in row["say"]]
    with FakeServers(rows) as fakes:
        out, err = run(LOGGED, *fakes.urls.values()).communicate(timeout=30)
    assert err == ""
    assert out.count("DEBUG:redlock.node:no connection") >= len(rows), out
    assert all(cause in out for row in rows for cause in row["cause"]), out
    assert "s3cret" not in out
