"""Options of other libraries, wrong types, and misplaced values: tests/vectors/arguments.toml."""

import asyncio
import contextlib
import inspect
import re
import signal
import threading
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redlock

from tests.servers import Silent

from .processes import run

Row = dict[str, Any]
TABLE: dict[str, list[Row]] = tomllib.loads(
    (Path(__file__).parent.parent / "vectors/arguments.toml").read_text()
)


@contextlib.contextmanager
def calls(client: redlock.Redlock, call: str) -> Iterator[list[Callable[..., object]]]:
    """Yields the calls of a row, sync and async."""
    if call == "on_lost":
        with redlock.Redlock("memory://").lock("job").acquire() as lease:
            yield [lease.on_lost]
    elif call in ("client", "configure"):
        yield ([redlock.Redlock, redlock.AsyncRedlock] if call == "client" else [redlock.configure])
    elif call == "lock":
        yield [client.lock, client.as_async().lock, redlock.lock]
    else:
        where = client.lock("job") if call == "acquire" else client
        yield [getattr(where, call), awaited(getattr(where.as_async(), call))]


def awaited(verb: Callable[..., Any]) -> Callable[..., object]:
    async def main(args: Any, options: Any) -> object:
        return await verb(*args, **options)

    return lambda *args, **options: asyncio.run(main(args, options))


def foreign() -> Iterator[Any]:
    for row in TABLE["foreign"]:
        if "python" in row:
            continue
        for option in row["options"]:
            name = f"{row['call']}({option['name']}) of {row['library']}"
            yield pytest.param(row["call"], option, id=name)


def types() -> Iterator[Any]:
    for row in TABLE["type"]:
        for option in row["options"]:
            for wrong in row["wrong"]:
                name = f"{row['call']}({option}={wrong!r})"
                yield pytest.param(row, option, wrong, id=name)


NEEDED: dict[str, tuple[Any, ...]] = {
    "lock": ("job",),
    "client": ("memory://",),
    "configure": ("memory://",),
    "acquire": (),
}


def refused(silent: list[Silent], row: Row, args: Any, options: Any, says: list[str]) -> None:
    with redlock.Redlock(silent[0].url) as client, calls(client, row["call"]) as uses:
        for use in uses:
            with pytest.raises(redlock.InvalidOption) as caught:
                use(*args, **options)
            assert caught.value.code == "invalid"
            text = str(caught.value)
            assert all(word in text for word in says), text
            assert not any(word in text for word in row.get("never", [])), text


@pytest.mark.parametrize(("call", "option"), list(foreign()))
def test_error_for_an_unknown_option_names_ours(
    silent: list[Silent], call: str, option: Row
) -> None:
    given = {option["name"]: option["value"]}
    says = [f"'{option['name']}'", *option["says"]]
    refused(silent, {"call": call} | option, NEEDED[call], given, says)


@pytest.mark.parametrize(
    ("option", "shown"),
    [("odd\n\x1b[2J", r"'odd\n\u{1b}[2J'"), ("\ud800odd", "odd'"), ("x" * 1000, "x" * 200 + "…'")],
)
def test_error_for_an_unknown_option_is_short_and_one_line(option: str, shown: str) -> None:
    client: Any = redlock.Redlock("memory://")
    uses: list[tuple[Any, tuple[str, ...]]] = [
        (client.lock("job").acquire, ()),
        (client.lock, ("job",)),
        (redlock.AsyncRedlock, ("memory://",)),
    ]
    for use, args in uses:
        with pytest.raises(redlock.InvalidOption) as caught:
            use(*args, **{option: 1})
        text = str(caught.value)
        assert shown in text
        assert text.isprintable()


@pytest.mark.parametrize("make", [redlock.Redlock, redlock.AsyncRedlock, redlock.configure])
def test_error_for_a_host_names_the_url(make: Any) -> None:
    with pytest.raises(redlock.InvalidOption, match=r"'host'.*redis://"):
        make(host="localhost", port=6379)
    with pytest.raises(redlock.InvalidOption, match="nodes is missing: give a URL such as"):
        make()


@pytest.mark.parametrize(("row", "option", "wrong"), list(types()))
def test_wrong_types_are_refused(silent: list[Silent], row: Row, option: str, wrong: Any) -> None:
    says = [f"{option} is ", *row["says"]]
    refused(silent, row, NEEDED[row["call"]], {option: wrong}, says)


def test_timeout_is_an_alias_of_wait_in_acquire_only(silent: list[Silent]) -> None:
    with redlock.Redlock("memory://") as client:
        lock = client.lock("job", wait=0)
        with lock.acquire(timeout=1), pytest.raises(redlock.LockTimeout):
            client.lock("job").acquire(timeout=0)
        with pytest.raises(redlock.InvalidOption, match=r"timeout is an alias.*wait=1.*timeout=2"):
            lock.acquire(wait=1, timeout=2)
        with pytest.raises(redlock.InvalidOption, match="timeout is 'soon'"):
            lock.acquire(timeout="soon")  # type: ignore[arg-type]
        with lock, pytest.raises(redlock.LockTimeout):
            asyncio.run(client.as_async().lock("job").acquire(timeout=0))
    with redlock.Redlock(silent[0].url) as client:
        waiting = client.lock("job").as_async()
        with pytest.raises(redlock.InvalidOption, match=r"timeout is an alias.*wait=1.*timeout=2"):
            asyncio.run(waiting.acquire(wait=1, timeout=2))
    with pytest.raises(redlock.InvalidOption, match="'timeout'"):
        redlock.lock("job", timeout=5)  # type: ignore[call-overload]


@pytest.mark.parametrize("row", TABLE["argument"], ids=lambda row: str(row["about"]))
def test_values_in_the_wrong_place_are_refused(silent: list[Silent], row: Row) -> None:
    if "python" in row:
        with pytest.raises(AttributeError):
            getattr(redlock.Redlock(silent[0].url), row["call"].removeprefix("client."))
        return
    refused(silent, row, row["args"], {}, row["says"])


def test_a_ttl_too_large_for_any_clock_is_refused(silent: list[Silent]) -> None:
    refused(silent, {"call": "lock"}, ("job",), {"ttl": 10**400}, ["ttl"])


def test_error_does_not_show_the_repr_of_a_connection() -> None:
    """The repr of a connection may contain a password."""

    class Connection:
        def __repr__(self) -> str:
            return "secret"

    for nodes in (Connection(), [Connection()]):
        with pytest.raises(redlock.InvalidOption) as caught:
            redlock.Redlock(nodes)  # type: ignore[arg-type]
        assert "secret" not in str(caught.value)
        assert "of type Connection" in str(caught.value)


@pytest.mark.parametrize(
    "call", [redlock.lock, redlock.Redlock.lock, redlock.Redlock, redlock.configure]
)
def test_parameters_equal_the_options_of_the_core(call: Callable[..., Any]) -> None:
    """An option without a parameter could not be passed. A parameter without an option would be ignored."""
    arguments = {"self", "nodes", "name", "args", "kwargs", "replace", "default"}
    written = {*inspect.signature(call).parameters} - arguments
    args = (redlock.Redlock("memory://"), "job") if call is redlock.Redlock.lock else ("memory://",)
    with pytest.raises(redlock.InvalidOption) as caught:
        call(*args, nap=1)
    assert {*re.findall(r"\w+", str(caught.value).partition("Valid options:")[2])} == written
    # Looked up even if no value is passed for it.
    call(*args, **({"replace": True} if call is redlock.configure else {}))


ALARMS = """
import signal, sys, time, redlock

raised, lost = 0, []


class Alarm(BaseException):
    pass


def ring(*_):
    raise Alarm


sys.unraisablehook = lost.append
signal.signal(signal.SIGALRM, ring)
client = redlock.Redlock("memory://")
end = time.monotonic() + 20
while raised < 100 and time.monotonic() < end:
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.3)
        while True:
            client.lock("job", ttl=5, wait=3)
    except Alarm:
        raised += 1
signal.setitimer(signal.ITIMER_REAL, 0)
print(raised, len(lost))
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no setitimer")
def test_exception_of_a_signal_handler_is_raised() -> None:
    """Ctrl-C during a call that checks its arguments is raised. Earlier, most were reported only to
    `sys.unraisablehook`.
    """
    program = run(ALARMS)
    said, wrong = program.communicate(timeout=40)
    assert (said, wrong, program.returncode) == ("100 0\n", "", 0)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (
            b"job",
            r"^the name is b'job': it must be a str\. Decode it first, as in value\.decode\(\)",
        ),
        (bytearray(b"job"), r"Decode it first"),
        (42, "^the name is 42: it must be a str, or a list of several$"),
        (["a", 42], "it must be a str, or a list of several$"),
        ("\ud800", "without lone surrogates"),
    ],
)
def test_error_for_an_invalid_name_says_what_to_pass(value: Any, words: str) -> None:
    client = redlock.Redlock("memory://")
    for call in (client.lock, redlock.lock, client.force_release):
        with pytest.raises(redlock.InvalidOption, match=words):
            call(value)


@pytest.mark.parametrize("wait", [-1, threading.TIMEOUT_MAX, 1e10])
def test_error_for_a_negative_or_huge_wait_names_infinity(
    call: Callable[..., Any], wait: float
) -> None:
    client = redlock.Redlock("memory://")
    with pytest.raises(
        redlock.InvalidOption, match=r"^wait must be .*\. wait=math\.inf waits forever$"
    ):
        client.lock("job", wait=wait)
    with pytest.raises(
        redlock.InvalidOption, match=r"wait must be .*\. wait=math\.inf waits forever$"
    ):
        call(client.lock("job"), "acquire", wait=wait)
    with pytest.raises(redlock.InvalidOption) as caught:
        client.lock("job", ttl=wait)
    assert "forever" not in str(caught.value)


def test_error_for_a_class_without_constructor_names_the_function() -> None:
    with pytest.raises(TypeError, match=r"redlock\.lock\(name\)"):
        redlock.Lock("job")
    with pytest.raises(TypeError, match=r"lock\.acquire\(\)"):
        redlock.Lease()


def test_error_for_a_url_object_says_to_pass_text() -> None:
    """pydantic's `RedisDsn`, for example, is not a str."""

    class Dsn:
        pass

    with pytest.raises(redlock.InvalidOption, match=r"of type Dsn: it must be a str.*str\(url\)"):
        redlock.Redlock(Dsn())  # type: ignore[arg-type]


def test_options_for_a_client_that_exists_are_refused(client: redlock.Redlock) -> None:
    """Without its prefix, the locks would have other keys and exclude no other client."""
    existing: Any = client
    with pytest.raises(redlock.InvalidOption, match="key_prefix cannot be set"):
        redlock.AsyncRedlock(existing, key_prefix="app:")
