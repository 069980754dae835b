"""The option limits, error codes and foreign keys that all languages share: tests/vectors."""

import logging
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redlock

from tests.servers import Server, Silent
from tests.waiting import eventually

VECTORS = Path(__file__).parent.parent / "vectors"


def table(name: str) -> dict[str, Any]:
    return tomllib.loads((VECTORS / f"{name}.toml").read_text())


OPTIONS, ERRORS, KEYS = table("options"), table("errors"), table("keys")["key"]


def about(case: dict[str, Any]) -> str:
    return str(case["about"])


def verify(case: dict[str, Any], make: Callable[[], object]) -> None:
    """Checks one call against its row."""
    if "error" not in case:
        make()
        return
    with pytest.raises(redlock.InvalidOption) as caught:
        make()
    assert caught.value.code == "invalid"
    for word in case["error"]:
        assert word in str(caught.value)
    for word in case.get("never", []):
        assert word not in str(caught.value)


def options(case: dict[str, Any]) -> dict[str, float]:
    return {key: float(value) for key, value in case["seconds"].items()}


def names(case: dict[str, Any]) -> list[str]:
    if "many_names" in case:
        return [f"name-{at}" for at in range(case["many_names"])]
    return ["x" * case["long_name"]] if "long_name" in case else case.get("names", ["job"])


def in_seconds(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the rows without those that apply only to milliseconds."""
    mine = [row for row in rows if "seconds" in row or "milliseconds" not in row]
    return [{"seconds": {}} | row for row in mine]


@pytest.mark.parametrize("case", in_seconds(OPTIONS["lock"]), ids=about)
def test_lock_options_are_checked_before_anything_is_sent(
    case: dict[str, Any], silent: list[Silent]
) -> None:
    urls = [node.url for node in silent[: case.get("nodes", 1)]]
    with redlock.Redlock(urls) as client:
        verify(case, lambda: client.lock(names(case), **options(case)))
    if len(urls) == 1:  # a lock of the default client is checked as one over one node
        verify(case, lambda: redlock.lock(names(case), **options(case)))


@pytest.mark.parametrize("case", in_seconds(OPTIONS["client"]), ids=about)
def test_client_options_are_checked_before_anything_is_sent(
    case: dict[str, Any], silent: list[Silent]
) -> None:
    port = str(silent[0].port)
    case = case | {"error": [word.replace("PORT", port) for word in case.get("error", [])]}
    nodes = [url.replace("PORT", port) for url in case["nodes"]]
    if not case["error"]:
        del case["error"]
    tls = {key: case[key] for key in ("tls_server_name",) if key in case}
    verify(case, lambda: redlock.Redlock(nodes, **options(case), **tls))


def test_valid_options_reach_the_node() -> None:
    """Proves that the tests above can fail."""
    node = Silent()
    with (
        redlock.Redlock(node.url) as client,
        pytest.raises(redlock.QuorumUnavailable),
    ):
        client.lock("job", ttl=0.1).acquire(wait=0)
    assert node.called()
    node.close()


@pytest.mark.parametrize("case", [row for row in OPTIONS["lock"] if "warning" in row], ids=about)
def test_warnings_are_logged_once(
    case: dict[str, Any], name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with redlock.Redlock("memory://") as client:
        for _ in range(3):
            client.lock(name, **options(case)).acquire().release()
    (record,) = eventually(
        lambda: [record for record in caplog.records if f"lock:{name}" in record.getMessage()]
    )
    assert (record.name, record.levelno) == ("redlock.acquire", logging.WARNING)
    for word in case["warning"]:
        assert word in record.getMessage()


@pytest.mark.parametrize("case", ERRORS["error"], ids=lambda case: str(case["class"]))
def test_error_classes_match_the_table(case: dict[str, str]) -> None:
    kind = getattr(redlock, case["class"])
    assert issubclass(kind, redlock.LockError)
    assert kind.code == case["kind"]
    if "also" in case:
        assert issubclass(kind, getattr(redlock, case["also"]))
    if "python_also" in case:
        assert issubclass(kind, getattr(__import__("builtins"), case["python_also"]))
    assert str(kind("message")) == "message"


@pytest.mark.parametrize("verb", ERRORS["after_close"])
def test_closed_client_refuses_every_verb(
    client: redlock.Redlock, name: str, verb: str, call: Callable[..., Any]
) -> None:
    lock = client.lock(name)
    client.close()
    with pytest.raises(redlock.ClientClosed) as caught:
        match verb:
            case "attach":
                call(client, verb, name, "0" * 32)
            case "force_release":
                call(client, verb, name)
            case _:
                call(lock, verb)
    assert caught.value.code == "closed"
    assert caught.value.resource == f"lock:{name}"


@pytest.mark.parametrize("case", KEYS, ids=about)
def test_foreign_keys_are_reported_and_unchanged(
    case: dict[str, Any],
    redis_client: redlock.Redlock,
    redis_server: Server,
    name: str,
    call: Callable[..., Any],
) -> None:
    lock = redis_client.lock(name)
    for command in case["set"]:
        redis_server.client.execute_command(*command.replace("KEY", lock.key).split())
    before = redis_server.client.dump(lock.key)
    calls = [lambda: call(lock, "acquire", wait=0.1)]
    if case["kind"] == "unsupported":
        calls.append(lambda: call(lock, "inspect"))
        calls.append(lambda: call(redis_client, "force_release", name))
        calls.append(lambda: call(lock, "attach", "0" * 32))
    for attempt in calls:
        with pytest.raises(redlock.LockError) as caught:
            attempt()
        assert caught.value.code == case["kind"]
        for word in [lock.key, *case["says"]]:
            assert word in str(caught.value)
    assert redis_server.client.dump(lock.key) == before
