"""Processes and runs near their end: atexit handlers, subinterpreters, and the end of a trio run."""

import time
from typing import Any

import pytest
import redlock
import trio

from tests.servers import Server

from .processes import run

ATEXIT = """
import asyncio, atexit, sys
url, name, first = sys.argv[1:]
def use(client):
    with client.lock(name, ttl=20, wait=5) as lease: held = lease.held
    async def main():
        async with client.lock(name, ttl=20, wait=5) as lease: return lease.held
    print(held, asyncio.run(main()), client.lock(name).inspect().held, flush=True)
if first == "before": atexit.register(lambda: use(redlock.Redlock(url)))
import redlock
client = redlock.Redlock(url)
if first == "used":
    lease = client.lock(name + "-used", ttl=20).acquire()
    lease.on_lost(print)
    atexit.register(lambda: (use(client), lease.release()))
if first == "closed": atexit.register(lambda: (use(client), client.close()))
if first == "shutdown":
    atexit.register(lambda: print(client.shutdown(1), flush=True))
    kept = client.lock(name, ttl=20).acquire()
if first == "made": atexit.register(lambda: use(redlock.Redlock(url)))
"""


@pytest.mark.parametrize("how", ["before", "used", "closed", "shutdown", "made"])
def test_atexit_handler_can_create_and_use_a_client(
    redis_server: Server, name: str, how: str
) -> None:
    for _ in range(5):
        process = run(ATEXIT, redis_server.url, name, how)
        out, err = process.communicate(timeout=30)
        said = ("True True False\n", "")
        if how == "shutdown":
            said = ("1\n", "")
        assert (out, err, process.returncode) == (*said, 0)
        assert not redis_server.client.keys(f"lock:{name}*")


BODIES = """
import atexit, redlock
client = redlock.Redlock("memory://")
def job(*lease): print("ran", flush=True)
atexit.register(client.once("run", remember=60).run, job)
atexit.register(client.once("decorated", remember=60)(job))
atexit.register(client.leader("leader").run, job)
"""


def test_atexit_can_call_what_runs_a_function() -> None:
    # No Python frame called it.
    process = run(BODIES)
    assert process.communicate(timeout=30) == ("ran\n" * 3, "")


SUBINTERPRETER = """
import sys
try:
    import _interpreters as interpreters
    kinds = "isolated", "legacy"
except ImportError:
    import _xxsubinterpreters as interpreters
    kinds = True, False
{before}
for kind in kinds:
    number = interpreters.create(kind) if kinds[0] == "isolated" else interpreters.create(isolated=kind)
    try:
        failed = interpreters.run_string(number, '''
try:
    import redlock
except ImportError as error:
    assert "WSGIApplicationGroup %{{GLOBAL}}" in str(error), error
    assert "single-interpreter" in str(error), error
else:
    raise AssertionError("imported")
''')
        # What went wrong: raised up to 3.12, given from 3.13 on.
        assert failed is None, failed
    finally:
        interpreters.destroy(number)
{after}
print("done")
"""
USED = """
import redlock
lock = redlock.Redlock('memory://').lock('job', wait=0)
with lock:
    assert lock.try_acquire() is None
"""


@pytest.mark.parametrize("when", ["never", "before", "after"])
def test_subinterpreter_is_refused_and_the_main_interpreter_works(when: str) -> None:
    parts = {"before": "", "after": ""} | ({} if when == "never" else {when: USED})
    process = run(SUBINTERPRETER.format(**parts))
    out, err = process.communicate(timeout=60)
    assert (out, err, process.returncode) == ("done\n", "", 0)


def test_grant_at_the_end_of_a_trio_run_is_released(
    redis_client: redlock.Redlock, name: str
) -> None:
    """The run is over, so no task can receive the grant, although an object still refers to the run."""
    from redlock import _trio

    kept: list[Any] = []

    async def main(micros: int) -> None:
        kept.append(_trio.running())
        acquire: Any = redis_client.lock(name, ttl=20)._start_acquire((main.__code__, 0))
        acquire.start()
        end = time.perf_counter() + micros * 1e-6
        while time.perf_counter() < end:
            pass
        acquire.give_up()

    for at in range(600):
        trio.run(main, at % 60 * 10)
    with redis_client.lock(name, ttl=20).acquire(wait=5):
        pass
