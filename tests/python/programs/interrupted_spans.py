"""Interrupts `redlock.otel` by a signal handler or a fork, or uses it for long keys: MODE."""

import json
import os
import signal
import sys
import threading
from typing import Any

import redlock
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from redlock import otel

from tests.waiting import eventually

signal.alarm(20)
exporter, tracers = InMemorySpanExporter(), TracerProvider()
tracers.add_span_processor(SimpleSpanProcessor(exporter))
client = redlock.Redlock("memory://")
interrupted: list[bool] = []
results: list[bool] = []


def use() -> bool:
    with client.lock("other", wait=0) as lease:
        return lease.held


def fork() -> None:
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        os._exit(not use())
    results.append(os.waitpid(child, 0)[1] == 0)


def handler() -> None:
    signal.signal(signal.SIGUSR1, lambda *_: results.append(use()))
    signal.raise_signal(signal.SIGUSR1)


class Holds(dict[Any, Any]):
    """Is interrupted while the instruments record a hold."""

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value)
        if not interrupted:
            interrupted.append(True)
            {"fork": fork, "handler": handler}[sys.argv[1]]()


def interrupt() -> None:
    otel.instrument(client, tracer_provider=tracers)
    otel._current.holds = Holds()  # type: ignore[union-attr]
    with client.lock("job"):
        pass


def setup() -> None:
    """Forks a child while another thread is in `instrument`."""
    inside, ends = threading.Event(), threading.Event()

    class Slow(TracerProvider):
        def get_tracer(self, *args: Any, **options: Any) -> Any:
            inside.set()
            ends.wait()
            return super().get_tracer(*args, **options)

    other = threading.Thread(target=lambda: otel.instrument(client, tracer_provider=Slow()))
    other.start()
    inside.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        otel.instrument(client, tracer_provider=tracers)
        os._exit(0)
    results.append(os.waitpid(child, 0)[1] == 0)
    ends.set()
    other.join()


def has_ended(key: str) -> bool:
    return any((span.attributes or {}).get("redlock.key") == key for span in holds())


def holds() -> list[Any]:
    return [span for span in exporter.get_finished_spans() if span.name == "redlock.hold"]


def long_keys() -> None:
    otel.instrument(client, tracer_provider=tracers)
    names: list[Any] = ["x" * 300, "line\nbreak", ["a" * 90, "b" * 90, "c" * 90]]
    # The events are recorded in order.
    for name in [*names, "last"]:
        with client.lock(name):
            pass
    eventually(lambda: has_ended("lock:last"))
    current: Any = otel._current
    results.extend([len(holds()) == 4, has_ended("lock:" + "x" * 300), not current.holds])


def parents_spans() -> None:
    """Forks a child under a lease. The child must not end, and thereby export, the spans of its parent."""
    otel.instrument(client, tracer_provider=tracers)
    with client.lock("job"):
        child = os.fork()
        if child == 0:
            signal.alarm(10)
            otel.uninstrument()
            os._exit(bool(holds()))
    results.append(os.waitpid(child, 0)[1] == 0)


{"setup": setup, "long": long_keys, "parent": parents_spans}.get(sys.argv[1], interrupt)()
print(json.dumps(results))
