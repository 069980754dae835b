"""`redlock.otel` in signal handlers, in forked children, and for locks with long keys."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .test_otel import PRELUDE

ROOT = Path(__file__).parents[2]


def run_program(program: str) -> Any:
    """Returns the JSON output of the program. A child that hangs is ended by its alarm."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PRELUDE + program],
        capture_output=True,
        text=True,
        timeout=30,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


#: Interrupts the instruments while they record a hold.
INTERRUPT = """
import os, signal
signal.alarm(20)

def use():
    with client.lock("other", wait=0) as lease:
        return lease.held

class Holds(dict):
    def __setitem__(self, *item):
        super().__setitem__(*item)
        if not interrupted:
            interrupted.append(True)
            interrupt()

interrupted, results = [], []
otel._current.holds = Holds()
"""

HANDLER = (
    INTERRUPT
    + """
signal.signal(signal.SIGUSR1, lambda *_: results.append(use()))
def interrupt():
    signal.raise_signal(signal.SIGUSR1)
with client.lock("job"):
    pass
print(json.dumps(results))
"""
)

FORK = (
    INTERRUPT
    + """
def interrupt():
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        os._exit(not use())
    results.append(os.waitpid(child, 0)[1] == 0)
with client.lock("job"):
    pass
print(json.dumps(results))
"""
)

#: A child is forked while another thread is in `instrument`.
INSTRUMENT = """
import os, signal
otel.uninstrument()
inside, ends = threading.Event(), threading.Event()
class Slow(TracerProvider):
    def get_tracer(self, *args, **options):
        inside.set()
        ends.wait()
        return super().get_tracer(*args, **options)
other = threading.Thread(target=lambda: otel.instrument(client, tracer_provider=Slow()))
other.start()
inside.wait()
child = os.fork()
if child == 0:
    signal.alarm(10)
    otel.instrument(client, tracer_provider=tracers, meter_provider=meters)
    os._exit(0)
status = os.waitpid(child, 0)[1]
ends.set()
other.join()
print(json.dumps([status == 0]))
"""


@pytest.mark.parametrize("program", [HANDLER, FORK, INSTRUMENT], ids=["handler", "fork", "setup"])
def test_interrupted_instruments_block_no_handler_and_no_child(program: str) -> None:
    assert run_program(program) == [True]


LONG = """
names = ["x" * 300, "line\\nbreak", *(["a" * 90, "b" * 90, "c" * 90],)]
for name in names:
    with client.lock(name):
        pass
# The events are recorded in order.
with client.lock("last"):
    pass
eventually(lambda: any(
    span.name == "redlock.hold" and span.attributes["redlock.key"] == "lock:last"
    for span in exporter.get_finished_spans()
))
spans = [span for span in exporter.get_finished_spans() if span.name == "redlock.hold"]
lengths = [len(span.attributes["redlock.key"]) for span in spans]
print(json.dumps([lengths, len(otel._current.holds)]))
"""


def test_hold_span_of_a_long_or_escaped_key_ends() -> None:
    lengths, left = run_program(LONG)
    assert len(lengths) == 4
    assert lengths[0] > 300
    assert left == 0
