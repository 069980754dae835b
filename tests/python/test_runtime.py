"""The hazards between Rust and Python: the GIL, signals, imports, exits."""

import signal
import threading
import time
from pathlib import Path

import pytest
import redlock

from tests.servers import Server

from .processes import run


def test_waiting_releases_the_gil(client: redlock.Redlock, name: str) -> None:
    lease = client.lock(name).acquire()
    steps = 0
    stop = threading.Event()

    def count() -> None:
        nonlocal steps
        while not stop.is_set():
            steps += 1

    thread = threading.Thread(target=count)
    thread.start()

    def wait() -> None:
        with pytest.raises(redlock.LockTimeout):
            client.lock(name).acquire(wait=0.5)

    other = threading.Thread(target=wait)
    before = steps
    other.start()
    other.join()
    stop.set()
    thread.join()
    assert steps - before > 10_000
    lease.release()


@pytest.mark.parametrize("module", ["threading", "logging"])
def test_interrupted_first_client_disables_neither_logs_nor_callbacks(module: str) -> None:
    program = Path(__file__).with_name("programs") / "interrupted_import.py"
    child = run(program.read_text(), module)
    out, errors = child.communicate(timeout=30)
    assert child.returncode == 0, errors
    assert "interrupted" in out
    assert "notified closed" in out
    assert "lease lost" in out


INTERRUPTED = """
import sys, threading, redlock
client = redlock.Redlock(sys.argv[1])
def says_when_it_waits():
    while client.stats().waiting == 0: pass
    print("waiting", flush=True)
threading.Thread(target=says_when_it_waits).start()
try:
    with client.lock(sys.argv[2], ttl=20): print("entered")
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_ctrl_c_interrupts_a_wait_and_leaves_no_key(
    redis_client: redlock.Redlock, redis_server: Server, name: str
) -> None:
    lease = redis_client.lock(name, ttl=20).acquire()
    process = run(INTERRUPTED, redis_server.url, name)
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert out == "interrupted\n", err
    assert lease.held
    lease.release()
    # A grant to the interrupted caller would keep the next one out.
    redis_client.lock(name).acquire(wait=10).release()
    assert redis_server.client.get(lease.key) is None


STORM = """
import sys, redlock
client = redlock.Redlock(sys.argv[1])
lock = client.lock(sys.argv[2], ttl=20)
# What is imported at first use: a Ctrl-C in the middle of an import may be swallowed by importlib itself.
with lock: pass
print("ready", flush=True)
interrupts = printed = 0
while interrupts < 100:
    try:
        while True:
            if printed < interrupts:
                printed += 1
                # Here, where the next one may come at once.
                print("next", flush=True)
            with lock: pass
    except KeyboardInterrupt:
        interrupts += 1
print("next", flush=True)
"""


def test_ctrl_c_at_any_time_leaves_no_key(redis_server: Server, name: str) -> None:
    process = run(STORM, redis_server.url, name)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    for number in range(100):
        time.sleep(0.001 + (number % 10) * 0.00013)
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "next\n"
    _, err = process.communicate(timeout=20)
    assert process.returncode == 0, err
    assert redis_server.client.get(f"lock:{name}") is None
    assert "collected" not in err


CANCELLED = """
import asyncio, sys, redlock
client = redlock.Redlock(sys.argv[1])
async def main():
    lock = client.lock(sys.argv[2], ttl=20)
    await (await lock.as_async().acquire()).release()
    task = asyncio.create_task(lock.as_async().acquire())
    await asyncio.sleep(float(sys.argv[3]))
    if not task.cancel(): await task.result().release()
asyncio.run(main())
"""


def test_an_exit_right_after_a_cancellation_leaves_no_key(redis_server: Server, name: str) -> None:
    for number in range(20):
        _, err = run(CANCELLED, redis_server.url, name, str(number * 2e-5)).communicate(timeout=20)
        assert err == ""
        assert redis_server.client.get(f"lock:{name}") is None


def imported() -> list[list[str]]:
    """Returns the seconds of an import, and which of some modules it imports, for five runs."""
    code = (
        "import sys, time; b = time.perf_counter(); import redlock; e = time.perf_counter();"
        "print(e - b, *(m for m in ('asyncio', 'logging', 'threading', 'inspect') if m in sys.modules))"
    )
    return [run(code).communicate(timeout=60)[0].split() for _ in range(5)]


def test_import_does_not_import_asyncio() -> None:
    runs = imported()
    assert all(len(words) == 1 for words in runs), runs


@pytest.mark.slow("measures the time that an import takes")
def test_import_is_fast() -> None:
    runs = imported()
    # 5 ms is the goal. The rest is for a busy machine (`make bench`).
    assert min(float(words[0]) for words in runs) < 0.050


def test_interpreter_with_leases_and_waiters_exits_cleanly(redis_server: Server, name: str) -> None:
    code = """
import asyncio, sys, threading, warnings, redlock
warnings.simplefilter("ignore")
client = redlock.Redlock(sys.argv[1])
lease = client.lock(sys.argv[2], ttl=20).acquire()
lease.on_lost(print)
threading.Thread(target=client.lock(sys.argv[2]).acquire, daemon=True).start()
asyncio.run(client.lock(sys.argv[2] + "-2", ttl=20).as_async().acquire())
print("done")
"""
    process = run(code, redis_server.url, name)
    out, err = process.communicate(timeout=20)
    assert (out, process.returncode) == ("done\n", 0), err
