"""An exception that another thread raises in a waiting thread ends the wait. Time limits and stop buttons do this."""

import ctypes
import threading
from collections.abc import Callable

import pytest
import redlock

from tests.servers import Server
from tests.waiting import eventually


class Stop(Exception):
    """The exception that is raised in the thread."""


def raise_in_waiting_thread(wait: Callable[[], object], waits: Callable[[], bool]) -> None:
    """Runs `wait` in a thread, raises `Stop` in it once it waits, and returns when that has ended it."""
    ended: list[BaseException | None] = []

    def run() -> None:
        try:
            wait()
            ended.append(None)
        except BaseException as error:
            ended.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    eventually(waits)
    assert thread.ident is not None
    ident = ctypes.c_ulong(thread.ident)
    assert ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(Stop)) == 1
    eventually(lambda: ended)
    assert isinstance(ended[0], Stop)
    thread.join()


@pytest.mark.parametrize("way", ["acquire", "with", "decorator"])
def test_exception_from_another_thread_ends_a_waiting_acquire(
    client: redlock.Redlock, name: str, way: str
) -> None:
    lock = client.lock(name)

    def enter() -> None:
        with lock:
            pytest.fail("entered")

    waits = {"acquire": lock.acquire, "with": enter, "decorator": lock(lambda: None)}
    with lock:
        raise_in_waiting_thread(waits[way], lambda: client.stats().waiting == 1)
        assert client.stats().waiting == 0
    lease = lock.try_acquire()
    assert lease is not None
    lease.release()


@pytest.mark.parametrize("verb", ["release", "extend", "shutdown", "inspect"])
def test_exception_from_another_thread_ends_every_waiting_call(name: str, verb: str) -> None:
    server = Server()
    # Longer than this test, so that nothing else ends the call.
    client = redlock.Redlock(server.url, node_timeout=600)
    lock = client.lock(name, ttl=6000)
    lease = lock.acquire()
    calls: dict[str, Callable[[], object]] = {
        "release": lease.release,
        "extend": lease.extend,
        "shutdown": lambda: client.shutdown(600),
        "inspect": lock.inspect,
    }
    begun = threading.Event()

    def call() -> None:
        begun.set()
        calls[verb]()

    server.freeze()
    try:
        raise_in_waiting_thread(call, begun.is_set)
    finally:
        server.thaw()
        client.close()
        server.close()
