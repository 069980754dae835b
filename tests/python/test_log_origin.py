"""Log records carry the context of their call, and the line of the acquire, for filters and handlers."""

import asyncio
import contextvars
import gc
import logging
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest
import redlock

from tests.waiting import eventually

REQUEST = contextvars.ContextVar("REQUEST", default="none")
HERE = __file__


class Recorder(logging.Handler):
    """Keeps each record with the request that a filter reads from the context variables."""

    def __init__(self) -> None:
        super().__init__(1)
        self.records: list[logging.LogRecord] = []
        self.addFilter(self.annotate)

    def annotate(self, record: logging.LogRecord) -> bool:
        vars(record)["request"] = REQUEST.get()
        return True

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def wait_for(self, words: str, key: str) -> logging.LogRecord:
        def found() -> list[logging.LogRecord]:
            return [
                record
                for record in self.records
                if record.getMessage().startswith(words) and f"lock:{key}" in record.getMessage()
            ]

        eventually(lambda: found(), lambda: [record.getMessage() for record in self.records])
        return found()[0]


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    handler = Recorder()
    logger = logging.getLogger("redlock")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(logging.NOTSET)
    logging.disable(logging.NOTSET)


@pytest.fixture
def client() -> Iterator[redlock.Redlock]:
    with redlock.Redlock("memory://") as client:
        yield client


def line_of(text: str) -> int:
    """Returns the number of the only line of this file that ends with the comment."""
    (number,) = [
        number
        for number, line in enumerate(Path(HERE).read_text().splitlines(), 1)
        if line.rstrip().endswith(f"# {text}")
    ]
    return number


def origin(record: logging.LogRecord) -> tuple[str, str, int, str]:
    return vars(record)["request"], record.pathname, record.lineno, record.funcName or ""


def test_a_loss_has_the_request_and_the_line_of_the_acquire(
    recorder: Recorder, client: redlock.Redlock
) -> None:
    def handle_request() -> redlock.Lease:
        REQUEST.set("r-1")
        return client.lock("lost").acquire()  # loses

    lease = contextvars.copy_context().run(handle_request)
    assert REQUEST.get() == "none"
    client.force_release("lost")
    record = recorder.wait_for("lease lost", "lost")
    assert origin(record) == ("r-1", HERE, line_of("loses"), "handle_request")
    assert vars(record)["reason"] == "missing"
    del lease


def test_each_step_has_the_request_of_its_own_call(
    recorder: Recorder, client: redlock.Redlock
) -> None:
    logging.getLogger("redlock").setLevel(logging.DEBUG)
    barrier = threading.Barrier(4)

    def work(number: int) -> None:
        REQUEST.set(f"r-{number}")
        barrier.wait()
        for turn in range(20):
            with client.lock(f"steps-{number}-{turn}"):  # works
                pass

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(4):
        for words in ("granted", "released"):
            record = recorder.wait_for(words, f"steps-{number}-19 ")
            assert origin(record) == (f"r-{number}", HERE, line_of("works"), "work")


def test_tasks_of_one_thread_have_separate_contexts(
    recorder: Recorder, client: redlock.Redlock
) -> None:
    logging.getLogger("redlock").setLevel(logging.DEBUG)
    shared = client.as_async()

    async def handle(number: int) -> None:
        REQUEST.set(f"t-{number}")
        tasks = shared.lock("tasks", ttl=30, label=f"task-{number}")
        async with tasks, shared.lock(f"inner-{number}"):  # awaits
            await asyncio.sleep(0)

    async def main() -> None:
        await asyncio.gather(*(handle(number) for number in range(5)))

    asyncio.run(main())
    for number in range(5):
        for words in ("granted", "released"):
            record = recorder.wait_for(words, f"inner-{number}")
            assert vars(record)["request"] == f"t-{number}"
    waits = recorder.wait_for("waiting", "tasks")
    assert waits.lineno == line_of("awaits")
    assert vars(waits)["request"] in {f"t-{number}" for number in range(1, 5)}


def test_a_record_about_a_node_has_no_request(recorder: Recorder, client: redlock.Redlock) -> None:
    REQUEST.set("r-2")
    other = redlock.Redlock(["memory://", "memory://other"], key_prefix="even:")
    eventually(lambda: [each for each in recorder.records if "survive no more" in each.msg])
    (record,) = [each for each in recorder.records if "survive no more" in each.msg]
    assert origin(record) == ("none", "redlock", 0, "redlock")
    other.close()
    REQUEST.set("none")


def test_disabled_loggers_copy_no_context(recorder: Recorder, client: redlock.Redlock) -> None:
    class Value:
        pass

    variable: contextvars.ContextVar[Value] = contextvars.ContextVar("variable")

    def acquire() -> tuple[redlock.Lease, "weakref.ref[Value]"]:
        value = Value()
        variable.set(value)
        return client.lock("copies").acquire(), weakref.ref(value)

    def keeps() -> bool:
        lease, value = contextvars.Context().run(acquire)
        kept = value() is not None
        lease.release()
        del lease
        eventually(lambda: value() is None, "the context outlives its lease")
        return kept

    assert keeps(), "warnings are logged by default"
    logging.getLogger("redlock").setLevel(logging.CRITICAL)
    assert not keeps()
    logging.getLogger("redlock").setLevel(logging.NOTSET)
    logging.disable(logging.CRITICAL)
    assert not keeps()


def test_a_lease_in_its_own_context_is_collected(
    recorder: Recorder, client: redlock.Redlock
) -> None:
    class Request:
        lease: redlock.Lease

    current: contextvars.ContextVar[Request] = contextvars.ContextVar("current")

    def forget() -> "weakref.ref[redlock.Lease]":
        request = Request()
        current.set(request)
        request.lease = client.lock("cycle", ttl=30).acquire()
        return weakref.ref(request.lease)

    lease = contextvars.Context().run(forget)
    with pytest.warns(ResourceWarning):
        gc.collect()
    assert lease() is None
    client.force_release("cycle")
