"""Passwords, keys and foreign texts (vectors/secrets.toml): what is never shown, and what is shown only escaped."""

import re

from tests.cross.agents import Reply
from tests.fake import FakeServers

from .conftest import World
from .test_options import spelled, table
from .test_replies import client_of, is_refused

SECRETS = table("secrets")
TOKEN = re.compile("[0-9a-fA-F]{32}")


def check_text(text: str, *words: str) -> None:
    """Checks that a text has one line, and neither a secret nor characters that a terminal interprets."""
    assert all(word in text for word in words), (words, text)
    assert "s3cret" not in text
    assert text.isprintable(), text
    assert not TOKEN.search(text), text


def check(error: Reply, *words: str) -> None:
    check_text(error["message"], *words)
    for node in error["nodes"]:
        check_text(node["error"])
    assert "s3cret" not in error["shown"]
    assert len(error["message"]) < 1000


def refused(world: World, **options: object) -> Reply:
    error = world.attempt(**options)
    assert error.get("code") == "invalid", (options, error)
    return error


def test_a_refused_url_is_not_shown(timed: World) -> None:
    for row in SECRETS["refused"]:
        check(refused(timed, nodes=row["nodes"]), *row["says"])


def test_a_path_that_may_be_a_key_is_not_shown(timed: World) -> None:
    for row in SECRETS["tls"]:
        words = [spelled(timed, word) for word in row["says"]]
        check(refused(timed, nodes=["rediss://127.0.0.1:1"], **row["options"]), *words)


def test_an_accepted_password_is_not_shown(timed: World) -> None:
    for row in SECRETS["accepted"]:
        client = timed.client(nodes=row["nodes"])
        lock = client.lock("job")
        check(lock.fails("acquire", "unavailable", wait_ms=0))
        check_text(lock.do("keys")["shown"])
        client.do("close")


def test_the_text_of_a_server_has_no_password_and_one_line(timed: World) -> None:
    with FakeServers(SECRETS["said"]) as fakes:
        for row in SECRETS["said"]:
            lock = client_of(timed, fakes, row).lock("job")
            for verb in ("try", "inspect"):
                is_refused(row, lock.begin(verb), row["cause"])
            check(lock.fails("acquire", "unavailable", wait_ms=0))


def test_a_name_is_shown_on_one_line_and_stored_unchanged(on_servers: World) -> None:
    for row in SECRETS["name"]:
        key, shown = f"lock:{row['name']}", row["shown"]
        lock = on_servers.one.lock(row["name"])
        lease = lock.acquire()
        assert lease.keys == [key]
        assert on_servers.command("EXISTS", key) == [1]
        error = lock.fails("acquire", "timeout", wait_ms=0)
        assert error["resource"] == key
        check(error, shown)
        lock.do("force_release")
        assert lease.do("lost", timeout_ms=60_000)["reason"] == "missing"
        check(lease.fails("ensure_held", "lost"), shown)
        for text in (lock.do("keys")["shown"], lease.do("held")["shown"]):
            assert not TOKEN.search(text), text
            assert text.isprintable(), text
