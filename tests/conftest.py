"""A time limit for every Python test, and child processes that a Ctrl-C ends."""

import contextlib
import faulthandler
import gc
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

#: Seconds for one test without its fixtures. `@pytest.mark.limit(seconds)` sets another limit.
LIMIT = float(os.environ.get("REDLOCK_TEST_LIMIT", "120"))
#: A thread that is blocked in native code runs no signal handler. The whole run ends this many seconds later.
GRACE = float(os.environ.get("REDLOCK_TEST_GRACE", "20"))

# A background process starts with SIGINT ignored, and its children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


class TookTooLong(BaseException):
    """Raised in a test that takes too long. Not an Exception, so that the test does not catch it."""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "limit(seconds): how long this test may take")
    config.addinivalue_line("markers", "slow(reason): a test of the slow tier, and why it is there")
    capture: Any = config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
        config.stash[STDERR] = os.dup(2)


STDERR = pytest.StashKey[int]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keeps the tests of one tier: the first, unless REDLOCK_TEST_TIER is "slow" or "all"."""
    tier = os.environ.get("REDLOCK_TEST_TIER", "first")
    if tier != "all":
        slow = tier == "slow"
        items[:] = [item for item in items if (item.get_closest_marker("slow") is not None) == slow]


def pytest_collection_finish() -> None:
    """Exempts the tests themselves from later garbage collections, which would take a tenth of a second each."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    # hypothesis searches the collector's objects if it is first imported for the summary.
    gc.unfreeze()


@contextlib.contextmanager
def limited(item: pytest.Item, what: str) -> Iterator[None]:
    mark = item.get_closest_marker("limit")
    seconds = max(LIMIT, mark.args[0] if mark else 0.0)

    def over(*_: object) -> None:
        name = f"{item.nodeid} ({what})"
        os.write(item.config.stash[STDERR], f"\ntook longer than {seconds:g} s: {name}\n".encode())
        raise TookTooLong(f"{name} took longer than {seconds:g} s")

    old = signal.signal(signal.SIGALRM, over)
    # Repeats, for a test that catches every exception.
    signal.setitimer(signal.ITIMER_REAL, seconds, 5.0)
    faulthandler.dump_traceback_later(seconds + GRACE, exit=True, file=item.config.stash[STDERR])
    try:
        yield
    except TookTooLong as error:
        pytest.fail(str(error))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGALRM, old)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    with limited(item, "setup"):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    with limited(item, "call"):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    with limited(item, "teardown"):
        return (yield)
