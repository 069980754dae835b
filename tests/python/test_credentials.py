"""Changing credentials: when the callback runs, on which thread, and what happens if it returns none."""

import gc
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
import redlock

from tests.servers import Server


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server("--user", "app", "on", ">s3cret", ">s3cret-2", "~*", "+@all")
    yield server
    server.close()


Call = Callable[..., Any]


def url(server: Server) -> str:
    return f"redis://127.0.0.1:{server.port}"


@pytest.mark.parametrize("lifetime", [(), (None,), (900,), (timedelta(minutes=15),)])
def test_callback_runs_on_a_separate_thread(server: Server, call: Call, lifetime: Any) -> None:
    asked = []

    def ask() -> Any:
        asked.append(threading.get_ident())
        return ("app", "s3cret", *lifetime)

    with redlock.Redlock(url(server), credentials=ask) as client:
        assert not asked
        call(call(client.lock("job"), "acquire"), "release")
        assert len(asked) == 1
        assert asked[0] != threading.get_ident()
        assert "app" in {each["user"] for each in server.client.client_list()}
        server.client.client_kill_filter(_type="normal", skipme=True)
        call(call(client.lock("job", wait=30), "acquire"), "release")
        assert len(asked) == 2


@pytest.mark.parametrize("given", [["app", "s3cret"], (b"app", b"s3cret"), [b"app", "s3cret", 900]])
def test_callback_may_return_lists_and_bytes(server: Server, call: Call, given: Any) -> None:
    with redlock.Redlock(url(server), credentials=lambda: given) as client:
        call(call(client.lock("job", wait=1), "acquire"), "release")


def fails() -> Any:
    raise ValueError("s3cret")


class Awaitable:
    def __await__(self) -> Iterator[None]:
        yield None


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (fails, "credentials raised ValueError, whose text is not shown"),
        (
            lambda: threading.Event().wait(3) or "s3cret",
            "credentials did not return within 1.500 s",
        ),
        (lambda: None, "returned a value of type NoneType"),
        (lambda: ("s3cret",), "returned 1 values: it must be a password, (user, password) or"),
        (lambda: {"password": "s3cret"}, "returned a value of type dict"),
        (lambda: ("app", "s3cret", "soon"), "returned a lifetime of type str"),
        (lambda: ("app", "s3cret", float("nan")), "returned a lifetime that is not a time"),
        (lambda: ["app", 5], "returned a password of type int"),
        (lambda: b"s3cret\xff", "returned a password that is not UTF-8"),
        (lambda: ("app", "s3cret", 0), "a lifetime of less than a second"),
        (lambda: "", "returned an empty password"),
        (Awaitable, "returned an awaitable"),
        (lambda: ("app", "wrong-s3cret"), "WRONGPASS"),
    ],
)
def test_callback_without_usable_credentials_is_an_error_in_time(
    server: Server, call: Call, ask: Any, words: str
) -> None:
    with (
        redlock.Redlock(url(server), credentials=ask, node_timeout=3) as client,
        pytest.raises(redlock.QuorumUnavailable) as caught,
    ):
        call(client.lock("job", wait=0), "acquire")
    assert words in str(caught.value)
    assert "s3cret" not in f"{caught.value!r} {caught.value.nodes}"


async def coroutine() -> str:
    return "s3cret"


@pytest.mark.parametrize(
    ("node", "ask", "words"),
    [
        ("redis://127.0.0.1", coroutine, ["coroutine function", "asyncio.run"]),
        ("redis://127.0.0.1", "s3cret", ["credentials is of type str", "function"]),
        ("redis://:s3cret@127.0.0.1:1", fails, ["credentials is set", "redis://127.0.0.1:1"]),
    ],
)
def test_unusable_callback_is_refused_when_the_client_is_created(
    node: str, ask: Any, words: list[str]
) -> None:
    with pytest.raises(redlock.InvalidOption) as caught:
        redlock.Redlock(node, credentials=ask)
    assert all(word in str(caught.value) for word in words)
    assert "s3cret" not in str(caught.value)


def test_callback_that_refers_to_its_client_is_collected_with_it(server: Server) -> None:
    class App:
        def __init__(self) -> None:
            self.client = redlock.Redlock(url(server), credentials=self.ask)
            self.lock = self.client.lock("job")

        def ask(self) -> tuple[str, str]:
            return ("app", "s3cret")

    app = App()
    app.lock.acquire().release()
    gone = weakref.ref(app)
    # The remaining lock still calls the callback.
    lock = app.lock
    del app
    gc.collect()
    server.client.client_kill_filter(_type="normal", skipme=True)
    lock = lock
    lock.acquire(wait=5).release()
    assert gone() is not None
    del lock
    gc.collect()
    assert gone() is None


def test_forked_child_calls_the_callback(server: Server) -> None:
    with redlock.Redlock(url(server), credentials=lambda: ("app", "s3cret")) as client:
        client.lock("job").acquire().release()
        child = os.fork()
        if child == 0:
            try:
                client.lock("job", wait=5).acquire().release()
            except BaseException:
                os._exit(1)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0


@pytest.mark.slow("a call of the function hangs for longer than an attempt waits for it")
def test_hanging_callback_is_called_once(server: Server) -> None:
    calls, returns = [], threading.Event()

    def ask() -> tuple[str, str]:
        calls.append(threading.get_ident())
        returns.wait()
        return ("app", "s3cret")

    with redlock.Redlock(url(server), credentials=ask) as client:
        with pytest.raises(redlock.QuorumUnavailable, match="did not return"):
            client.lock("job").acquire(wait=33)
        assert len(calls) == 1
        returns.set()
        client.lock("job").acquire(wait=10).release()
        assert len(calls) == 1, "its late result was not used"
