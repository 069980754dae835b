"""Events reach `logging`: each step with its values, as soon as a logger enables it."""

import asyncio
import logging
import logging.config
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redlock
from redlock import _log

from tests.servers import Server
from tests.waiting import eventually

from . import processes

LOGGERS = ["redlock", *(f"redlock.{topic}" for topic in ("acquire", "lease", "node", "client"))]


class RecordingHandler(logging.Handler):
    """Keeps its records."""

    def __init__(self) -> None:
        super().__init__(1)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def starting_with(self, words: str) -> list[logging.LogRecord]:
        return [record for record in self.records if record.getMessage().startswith(words)]

    def wait_for(self, words: str, least: int = 1) -> list[logging.LogRecord]:
        eventually(
            lambda: len(self.starting_with(words)) >= least,
            lambda: [record.getMessage() for record in self.records],
        )
        return self.starting_with(words)


@pytest.fixture
def recorder() -> Iterator[RecordingHandler]:
    handler = RecordingHandler()
    logger = logging.getLogger("redlock")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)
    logging.disable(logging.NOTSET)
    for name in LOGGERS:
        logging.getLogger(name).setLevel(logging.NOTSET)
        logging.getLogger(name).disabled = False


def flush(recorder: RecordingHandler) -> None:
    """Waits until every earlier event is logged. A warning uses the same queue, behind all of them."""
    said = len(recorder.starting_with("the flush"))
    client = redlock.Redlock("memory://")
    with client.lock("flush", ttl=2 * 3600 + said):
        pass
    recorder.wait_for("the ttl is above one hour")
    recorder.records = [record for record in recorder.records if "above one hour" not in record.msg]


def level(level: int, name: str = "redlock") -> None:
    logging.getLogger(name).setLevel(level)


def test_each_record_has_a_template_and_values(
    recorder: RecordingHandler, redis_server: Server
) -> None:
    level(logging.DEBUG)
    client = redlock.Redlock(redis_server.url)
    with client.lock("steps", ttl=0.6) as lease:
        recorder.wait_for("renewed")
        token = lease.token
    (granted,) = recorder.wait_for("granted")
    assert (granted.name, granted.levelno) == ("redlock.acquire", logging.DEBUG)
    assert granted.msg == "granted key=%s token=%s ttl_ms=%s waited_ms=%s"
    values = vars(granted)
    assert granted.args == ("lock:steps", token[:8], values["ttl_ms"], values["waited_ms"])
    assert (values["key"], values["token"], values["ttl_ms"]) == ("lock:steps", token[:8], 600.0)
    renewed = recorder.starting_with("renewed")[0]
    assert renewed.name == "redlock.lease"
    assert 0 < vars(renewed)["remaining_ms"] <= 600
    (released,) = recorder.wait_for("released")
    assert vars(released)["held_ms"] > 100
    assert vars(recorder.starting_with("connected")[0])["node"] == redis_server.shown
    assert {record.name for record in recorder.starting_with("connected")} == {"redlock.node"}
    assert not any(token in record.getMessage() for record in recorder.records)


def test_waiting_record_has_the_holder_and_remaining_time_as_values(
    recorder: RecordingHandler,
) -> None:
    level(logging.DEBUG)
    client = redlock.Redlock("memory://")
    with client.lock("job", ttl=30, label="web-3"), ThreadPoolExecutor(1) as other:
        waiting = other.submit(client.lock("job", wait=0.05).acquire)
        assert isinstance(waiting.exception(), redlock.LockTimeout)
    (waits,) = recorder.wait_for("waiting: it is already held")
    assert waits.msg == "waiting: %s key=%s remaining_ms=%s holder=%s"
    assert 0 < vars(waits)["remaining_ms"] <= 30_500
    assert vars(waits)["why"].startswith("it is already held by web-3, and expires in")
    assert vars(waits)["holder"] == "web-3"


def turn_on_by_disabling(on: bool) -> None:
    level(logging.DEBUG)
    logging.disable(logging.NOTSET if on else logging.CRITICAL)


WAYS: dict[str, Callable[[bool], None]] = {
    "its parent": lambda on: level(logging.DEBUG if on else logging.WARNING),
    "its own": lambda on: level(logging.DEBUG if on else logging.WARNING, "redlock.acquire"),
    "logging.disable": turn_on_by_disabling,
    "dictConfig": lambda on: logging.config.dictConfig(
        {
            "version": 1,
            "incremental": True,
            "loggers": {"redlock": {"level": "DEBUG" if on else "WARNING"}},
        }
    ),
    "root": lambda on: level(logging.DEBUG if on else logging.WARNING, ""),
}


@pytest.mark.parametrize("way", WAYS)
def test_level_applies_as_soon_as_it_is_set(way: str, recorder: RecordingHandler) -> None:
    root = logging.getLogger().level
    client = redlock.Redlock("memory://")
    try:
        for number in range(20):
            on = number % 2 == 0
            WAYS[way](on)
            with client.lock(f"turn-{number}"):
                pass
            if on:
                recorder.wait_for(f"granted key=lock:turn-{number}")
        logging.disable(logging.NOTSET)
        flush(recorder)
    finally:
        level(root, "")
    said = [record.getMessage() for record in recorder.starting_with("granted key=lock:turn-")]
    numbers = [int(text.split()[1].rpartition("-")[2]) for text in said]
    assert numbers == list(range(0, 20, 2))


def test_level_set_during_a_record_is_not_reverted(
    recorder: RecordingHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log thread also tells the core which levels are enabled. It may read a level before a change and report it
    afterwards.
    """
    tell, asked, changed = _log._log_from, threading.Event(), threading.Event()

    def late(topic: str, level: int) -> None:
        if threading.current_thread() is not threading.main_thread() and not asked.is_set():
            assert (topic, level) == ("lease", logging.WARNING)
            asked.set()
            assert changed.wait(10)
        tell(topic, level)

    monkeypatch.setattr(_log, "_log_from", late)
    client = redlock.Redlock("memory://")
    lease = client.lock("lost").acquire()
    client.force_release("lost")
    assert asked.wait(10)
    level(logging.DEBUG)
    changed.set()

    def released() -> bool:
        with client.lock("notified"):
            pass
        return bool(recorder.starting_with("released"))

    eventually(released, "the core received the old level after the new one")
    assert not lease.held


def test_queued_events_are_filtered_by_a_later_level(recorder: RecordingHandler) -> None:
    at, on = threading.Event(), threading.Event()

    class Gate(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "lock:gate" in record.getMessage():
                at.set()
                on.wait(10)

    gate, logger = Gate(), logging.getLogger("redlock.acquire")
    logger.addHandler(gate)
    level(logging.DEBUG, "redlock.acquire")
    client = redlock.Redlock("memory://")
    try:
        with client.lock("gate"):
            assert at.wait(10)
        with client.lock("behind"):
            level(logging.WARNING, "redlock.acquire")
    finally:
        on.set()
        logger.removeHandler(gate)
    flush(recorder)
    assert not recorder.starting_with("granted key=lock:behind")


def test_disabling_a_logger_applies_immediately(
    recorder: RecordingHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell, levels = _log._log_from, list[int]()
    monkeypatch.setattr(_log, "_log_from", lambda *to: (levels.append(to[1]), tell(*to)))
    level(logging.DEBUG)
    logger, client = logging.getLogger("redlock.acquire"), redlock.Redlock("memory://")
    for name, off in [("off", True), ("on", False), ("off again", True), ("on again", False)]:
        levels.clear()
        logger.disabled = off
        # The core creates no events for disabled loggers.
        assert levels == [_log.NEVER if off else logging.DEBUG]
        with client.lock(name):
            pass
        # Ordered after it in the same queue.
        recorder.wait_for(f"released key=lock:{name} ")
        assert bool(recorder.starting_with(f"granted key=lock:{name} ")) is not off


def test_renewals_are_logged_as_soon_as_they_are_enabled(recorder: RecordingHandler) -> None:
    client = redlock.Redlock("memory://")
    with client.lock("recorder", ttl=0.3):
        eventually(lambda: client.stats().renewed >= 2)
        assert not recorder.records
        level(logging.DEBUG, "redlock.lease")
        recorder.wait_for("renewed", 2)
        level(logging.WARNING, "redlock.lease")
        flush(recorder)
        count = len(recorder.starting_with("renewed"))
        before = client.stats().renewed
        eventually(lambda: client.stats().renewed >= before + 3)
        assert len(recorder.starting_with("renewed")) == count


def second_connection(server: Server) -> None:
    """Waits for it. A server that ends before causes a record that it cannot be opened."""
    eventually(lambda: any(int(one["redir"]) > 0 for one in server.client.client_list()))


def test_outage_is_one_record_for_many_failed_acquires(recorder: RecordingHandler) -> None:
    level(logging.INFO)
    server = Server()
    client = redlock.Redlock(server.url)
    client.lock("before").acquire().release()
    second_connection(server)
    server.process.kill()
    server.process.wait()
    with ThreadPoolExecutor(9) as pool:
        waits = pool.submit(client.lock("waits").acquire)

        def fail() -> list[BaseException | None]:
            lock = client.lock("fails", wait=0)
            return [pool.submit(lock.acquire).exception() for _ in range(50)]

        try:
            outage = eventually(lambda: fail() and recorder.starting_with("unavailable for "))[0]
            for error in fail():
                assert isinstance(error, redlock.QuorumUnavailable)
            flush(recorder)
            assert recorder.records == [outage], [
                record.getMessage() for record in recorder.records
            ]
            server.restart()
            waits.result(60).release()
            second_connection(server)
        finally:
            client.close()
    assert outage.msg == "unavailable for %s, retrying: %s node=%s outage_ms=%s failures=%s"
    assert (outage.name, outage.levelno) == ("redlock.node", logging.WARNING)
    values = vars(outage)
    assert values["node"] == server.shown
    assert values["outage_ms"] >= 1000
    assert values["failures"] > 50
    (back,) = recorder.wait_for("available again after ")
    assert (back.name, back.levelno) == ("redlock.node", logging.INFO)
    assert vars(back)["failures"] >= values["failures"]
    server.close()
    assert len(recorder.records) == 2, [record.getMessage() for record in recorder.records]


def lose(client: redlock.Redlock, name: str) -> None:
    client.lock(name).acquire()
    client.force_release(name)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("config", ["dictConfig", "fileConfig"])
def test_losses_are_logged_after_a_config_that_disables_other_loggers(
    config: str, tmp_path: Any
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CONFIGURES, config, str(tmp_path / "log.ini")],
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.stdout.split() == ["redlock.lease", "False"], done.stdout + done.stderr


CONFIGURES = """
import logging, logging.config, sys, time
import redlock

records = []
class RecordingHandler(logging.Handler):
    def emit(self, record):
        records.append(record)
logging.RecordingHandler = RecordingHandler
client = redlock.Redlock("memory://")
logging.getLogger("other")
if sys.argv[1] == "dictConfig":
    logging.config.dictConfig({
        "version": 1,
        "handlers": {"recorder": {"class": "logging.RecordingHandler"}},
        "root": {"handlers": ["recorder"], "level": "INFO"},
    })
else:
    with open(sys.argv[2], "w") as file:
        file.write(
            "[loggers]\\nkeys=root\\n[handlers]\\nkeys=recorder\\n[formatters]\\nkeys=\\n"
            "[logger_root]\\nlevel=INFO\\nhandlers=recorder\\n[handler_recorder]\\nclass=RecordingHandler\\nargs=()\\n"
        )
    logging.config.fileConfig(sys.argv[2])
assert logging.getLogger("other").disabled
lease = client.lock("job").acquire()
client.force_release("job")
while not records:
    pass
print(records[0].name)
# A program that disables this logger explicitly gets no records.
records.clear()
logging.getLogger("redlock.lease").disabled = True
lease = client.lock("job").acquire()
client.force_release("job")
while lease.held:
    pass
# Ordered after it in the same queue.
logging.getLogger("redlock.acquire").setLevel(logging.DEBUG)
client.lock("next").acquire().release()
while not [record for record in records if record.name == "redlock.acquire"]:
    pass
print(bool([record for record in records if record.name == "redlock.lease"]))
"""


def test_record_factory_that_sets_our_names_loses_no_record(recorder: RecordingHandler) -> None:
    factory = logging.getLogRecordFactory()

    def named(*args: Any, **options: Any) -> logging.LogRecord:
        record = factory(*args, **options)
        record.key = "theirs"
        return record

    level(logging.DEBUG)
    logging.setLogRecordFactory(named)
    try:
        with redlock.Redlock("memory://").lock("named"):
            pass
        (granted,) = recorder.wait_for("granted")
    finally:
        logging.setLogRecordFactory(factory)
    assert vars(granted)["key"] == "theirs"
    assert "lock:named" in granted.getMessage()


def test_changing_levels_and_failing_handlers_do_not_affect_leases(
    recorder: RecordingHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    raised: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", raised.append)

    class Raises(logging.Handler):
        def handle(self, record: logging.LogRecord) -> bool:
            raise ZeroDivisionError

    logger, raises, done = logging.getLogger("redlock"), Raises(), threading.Event()

    def toggle() -> None:
        while not done.is_set():
            level(logging.DEBUG)
            level(logging.WARNING)

    toggling = threading.Thread(target=toggle)
    client = redlock.Redlock("memory://")
    logger.addHandler(raises)
    toggling.start()
    try:
        with client.lock("long", ttl=1) as long:
            for number in range(300):
                with client.lock(f"load-{number}"):
                    pass
            assert long.held

        async def many() -> None:
            async def one(number: int) -> None:
                async with client.lock(f"async-{number % 7}"):
                    pass

            await asyncio.gather(*(one(number) for number in range(100)))

        asyncio.run(many())
    finally:
        done.set()
        toggling.join()
        logger.removeHandler(raises)
    level(logging.DEBUG)
    with client.lock("after"):
        pass
    recorder.wait_for("granted key=lock:after")
    assert {type(each.exc_value) for each in raised} <= {ZeroDivisionError}


def test_handler_that_waits_for_the_programs_lock_does_not_delay_renewals(
    recorder: RecordingHandler,
) -> None:
    """The program logs under its own lock, and acquires that lock in a handler."""
    mine = threading.Lock()

    class Locks(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            with mine:
                pass

    handler = Locks()
    logging.getLogger("redlock").addHandler(handler)
    level(logging.DEBUG)
    client = redlock.Redlock("memory://")
    try:
        with mine, client.lock("mine", ttl=0.5) as lease:
            # Its TTL is over twice by then.
            eventually(lambda: client.stats().renewed >= 6)
            assert lease.held
    finally:
        logging.getLogger("redlock").removeHandler(handler)
    recorder.wait_for("released key=lock:mine")


FORKS = """
import logging, os, sys, time
import redlock

logging.basicConfig(level=logging.DEBUG, stream=sys.stdout, format="%(process)d %(name)s %(message)s")
logging.getLogger("asyncio").setLevel(logging.WARNING)
client = redlock.Redlock("memory://")
with client.lock("parent"):
    pass
child = os.fork()
with client.lock("after"):
    pass
if child:
    assert os.waitpid(child, 0)[1] == 0
    print("child", child)
"""


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_forked_child_logs_and_an_exit_flushes_queued_records() -> None:
    child = processes.run(FORKS)
    out, errors = child.communicate(timeout=30)
    assert child.returncode == 0, errors
    forked = out.split("child ")[1].split()[0]
    steps = [line.split()[:3] for line in out.splitlines() if "lock:after" in line]
    for process in (forked, str(child.pid)):
        assert [process, "redlock.acquire", "granted"] in steps, out
        # Logged while the process exits.
        assert [process, "redlock.lease", "released"] in steps, out


@pytest.mark.parametrize("end", ["release_all", "shutdown", "close", "force_release"])
def test_revoked_lease_logs_info_and_any_other_loss_a_warning(
    client: redlock.Redlock, name: str, end: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A loss by any other cause is an error."""
    caplog.set_level("INFO", "redlock")
    lease = client.lock(name).acquire()
    ends = {
        "shutdown": lambda: client.shutdown(0),
        "force_release": lambda: client.force_release(name),
    }
    ends.get(end, lambda: getattr(client, end)())()

    def lost() -> list[logging.LogRecord]:
        records = [each for each in caplog.records if name in each.getMessage()]
        return [each for each in records if each.getMessage().startswith("lease lost")]

    eventually(lost)
    assert not lease.held
    wanted = logging.INFO if end in ("release_all", "shutdown") else logging.WARNING
    assert [each.levelno for each in lost()] == [wanted]
