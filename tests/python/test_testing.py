"""`redlock.testing` and the pytest plugin: held by another, lost now, unavailable, in one test only."""

import asyncio
import gc
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio
import pytest
import redlock
import redlock.testing
from redlock.testing import TestRedlock

from tests.waiting import eventually, forever

Call = Callable[..., Any]


@pytest.fixture
def fake() -> Iterator[TestRedlock]:
    """Yields a client of `redlock.testing`. Its node exists only in memory, and tests control its state and clock."""
    with TestRedlock() as client:
        yield client


def test_lose_cancels_the_body(fake: TestRedlock) -> None:
    async def main() -> None:
        with pytest.raises(redlock.LockLost):
            async with fake.lock("job") as lease:
                notified: list[str | None] = []
                lease.on_lost(lambda error: notified.append(error.reason))
                try:
                    await fake.as_async().lose("job")
                    await forever()
                finally:
                    assert notified == ["missing"]

    asyncio.run(main())


def test_jump_returns_after_the_callbacks(
    fake: TestRedlock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redlock._test_waits, "NOTIFY_TIMEOUT", 60)
    notified: list[str | None] = []
    lease = fake.lock("job").acquire()
    lease.on_lost(lambda error: notified.append(error.reason))
    fake.jump(timedelta(hours=1))
    assert notified == ["expired"]

    async def main() -> None:
        lease = await fake.lock("job").as_async().acquire()
        lease.on_lost(lambda error: notified.append(error.reason))
        await fake.as_async().jump(3600)
        assert notified == ["expired"] * 2

    asyncio.run(main())


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_jump_runs_the_callbacks_while_the_node_fails(
    fake: TestRedlock, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redlock._test_waits, "NOTIFY_TIMEOUT", 60)
    notified: list[str | None] = []

    async def main() -> None:
        lease = await fake.lock("job").as_async().acquire()
        lease.on_lost(lambda error: notified.append(error.reason))
        fake.fail()
        await fake.as_async().jump(3600)
        assert notified == ["expired"]

    anyio.run(main, backend=backend)


def test_jump_ignores_another_module_named_trio(
    fake: TestRedlock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "redlock._trio", raising=False)
    monkeypatch.delattr(redlock, "_trio", raising=False)
    monkeypatch.setitem(sys.modules, "trio", ModuleType("trio"))

    async def main() -> None:
        lease = await fake.lock("job").as_async().acquire()
        await fake.as_async().jump(3600)
        assert not lease.held

    asyncio.run(main())


@pytest.mark.parametrize("wrong", [-1, None])
def test_failed_jump_leaves_no_callback(
    fake: TestRedlock, call: Call, wrong: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    registered: list[object] = []
    forgotten: list[object] = []

    class Lease:
        held = True

        def on_lost(self, callback: object) -> Callable[[], None]:
            registered.append(callback)
            return lambda: forgotten.append(callback)

    monkeypatch.setattr(TestRedlock, "leases", lambda _: [Lease()])
    with pytest.raises(redlock.InvalidOption):
        call(fake, "jump", wrong)
    assert registered
    assert forgotten == registered


@pytest.mark.parametrize("wrong", [-1, "10", None, float("nan")])
def test_invalid_jump_is_refused(fake: TestRedlock, call: Call, wrong: Any) -> None:
    lease = fake.lock("job").acquire()
    with pytest.raises(redlock.InvalidOption, match=r"seconds (is|must be) "):
        call(fake, "jump", wrong)
    assert lease.held
    lease.release()


def test_leases_of_hold_end_without_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "redlock")
    with TestRedlock() as client:
        client.hold("job")
    ended = eventually(lambda: [each for each in caplog.records if each.name == "redlock.lease"])
    assert [(each.levelname, each.getMessage().split()[0]) for each in ended] == [
        ("DEBUG", "detached")
    ]


def test_client_that_is_collected_does_not_warn_about_leases_of_hold() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TestRedlock().hold("job")
        gc.collect()


@pytest.mark.parametrize("end", ["close", "shutdown", "await shutdown", "with", "async with"])
def test_closing_the_client_ends_all_its_leases(end: str) -> None:
    client = TestRedlock(key_prefix="app:")
    theirs = client.hold("job", ttl=20)
    client.fail()

    async def leave() -> None:
        if end == "await shutdown":
            await client.as_async().shutdown(0)
        else:
            async with client.as_async():
                pass

    if "a" in end[:1]:
        asyncio.run(leave())
    elif end == "with":
        with client:
            pass
    else:
        getattr(client, end)()
    assert theirs.key == "app:job"
    assert not theirs.held
    with pytest.raises(redlock.ClientClosed):
        client.lock("job").acquire()
    # The failure applied only during the test.
    redlock.Redlock(client.nodes).lock("other", wait=0).acquire().release()


#: A test file that uses the fixtures of the pytest plugin `redlock_pytest`. Its tests run in this order.
PLUGIN = """
import asyncio
import pytest

@pytest.fixture
def lease(redlock_client):
    # A lease that outlives its test is lost, without a warning.
    return redlock_client.lock("job").acquire()

def test_client_lists_the_lease(lease, redlock_client):
    assert lease.held and redlock_client.leases() == [lease]

def test_async_client_is_the_same_client(redlock_client, async_redlock_client):
    async def main():
        theirs = await async_redlock_client.hold("job")
        assert await async_redlock_client.lock("job").try_acquire() is None
        assert async_redlock_client.as_sync() is redlock_client
        await theirs.release()
        lease = await async_redlock_client.lock("job").acquire()
        assert await async_redlock_client.lose("job") and not lease.held

    asyncio.run(main())

def test_each_test_has_a_new_client(redlock_client):
    lease = redlock_client.lock("job", wait=0).acquire()
    assert redlock_client.lose("job") and not lease.held

@pytest.mark.redlock(key_prefix="outer:", node_timeout=0.5)
class TestMarked:
    @pytest.mark.redlock(key_prefix="app:")
    def test_nearest_marker_sets_the_options(self, redlock_client, redlock_default):
        import redlock
        assert redlock.lock("job").key == "app:job"
        redlock_default.hold("job")
        with pytest.raises(redlock.LockTimeout):
            redlock.lock("job", wait=0).acquire()
        redlock_default.fail()
        with pytest.raises(redlock.QuorumUnavailable):
            redlock.lock("other", wait=0).acquire()

    def test_default_client_is_restored(self):
        import redlock
        assert redlock.configure("memory://own").nodes == ["memory://own"]

    def test_fixture_replaces_a_configured_default_client(self, redlock_default):
        import redlock
        assert redlock.lock("job").inspect().nodes[0].url == redlock_default.nodes[0]

    def test_configured_default_client_is_restored(self):
        import redlock
        assert redlock.lock("job").inspect().nodes[0].url == "memory://own"
        with pytest.raises(redlock.InvalidOption, match="in use"):
            redlock.configure("memory://")
"""

UNLOADED = """
import sys

def test_nothing_is_imported():
    assert not [name for name in sys.modules if name.partition(".")[0] == "redlock"]

def test_no_fixture(redlock_client):
    pass
"""


def run_pytest(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Runs the tests of `folder` in a new process."""
    words = ["-q", "-W", "error", "--strict-markers", "-p", "no:cacheprovider"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *words, "-p", "no:hypothesispytest", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=100,
    )


@pytest.mark.parametrize("loaded", ["by -p", "by conftest.py"])
def test_plugin_provides_fixtures_once_loaded(tmp_path: Path, loaded: str) -> None:
    (tmp_path / "test_it.py").write_text(PLUGIN)
    if loaded == "by -p":
        ran = run_pytest(tmp_path, "-p", "redlock.pytest_plugin")
    else:
        (tmp_path / "conftest.py").write_text('pytest_plugins = ["redlock.pytest_plugin"]\n')
        ran = run_pytest(tmp_path)
    assert "7 passed" in ran.stdout, ran.stdout + ran.stderr


def test_plugin_is_not_loaded_by_the_installation(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(UNLOADED)
    ran = run_pytest(tmp_path)
    assert "1 passed, 1 error" in ran.stdout, ran.stdout + ran.stderr
    assert "fixture 'redlock_client' not found" in ran.stdout


def test_jump_works_while_the_programs_clock_is_frozen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As with freezegun."""

    async def main() -> None:
        client = TestRedlock()
        lease = await client.lock("job").as_async().acquire()
        lease.on_lost(lambda _: None)
        for clock in ("monotonic", "time", "perf_counter"):
            monkeypatch.setattr(time, clock, lambda: 1.0)
        client.jump(20)
        assert not lease.held
        monkeypatch.undo()

    asyncio.run(main())
