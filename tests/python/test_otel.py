"""Spans and metrics of `redlock.otel` with the real SDK. The dashboard uses only exported metrics."""

import json
import os
import re
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import eventually

ROOT = Path(__file__).parents[2]
OBSERVABILITY = ROOT / "examples" / "observability"

PRELUDE = """
import asyncio, json, sys, threading, time
import redlock
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
from redlock import otel
from tests.waiting import eventually
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
tracers = TracerProvider()
tracers.add_span_processor(SimpleSpanProcessor(exporter))
meters = MeterProvider([reader])
tracer = tracers.get_tracer("app")

def until(count):
    eventually(lambda: len(exporter.get_finished_spans()) >= count)
    return exporter.get_finished_spans()

def rows():
    found = {}
    for resource in reader.get_metrics_data().resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                for point in metric.data.data_points:
                    words = ",".join(f"{name}={value}" for name, value in point.attributes.items())
                    value = getattr(point, "value", None)
                    found[f"{metric.name}{{{words}}}"] = point.count if value is None else value
    return found

client = redlock.Redlock("memory://")
otel.instrument(client, tracer_provider=tracers, meter_provider=meters)
"""


def run_program(program: str, *flags: str) -> Any:
    """Returns the JSON output of the program in a separate process, because providers are global."""
    done = subprocess.run(
        [sys.executable, *flags, "-c", PRELUDE + program],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


SPANS = """
with tracer.start_as_current_span("request"):
    with client.lock("job"):
        time.sleep(0.05)

async def main():
    with tracer.start_as_current_span("task"):
        async with client.lock("job"):
            pass
asyncio.run(main())
lease = client.lock("job").acquire()
assert client.lock("job").try_acquire() is None
try:
    otel_thread = threading.Thread(target=lambda: client.lock("job", wait=0.05).acquire())
    threading.excepthook = lambda _: None
    otel_thread.start()
    otel_thread.join()
finally:
    client.force_release("job")
spans = until(10)
names = {span.context.span_id: span.name for span in spans}
print(json.dumps([
    {
        "name": span.name,
        "parent": span.parent and names.get(span.parent.span_id),
        "attributes": dict(span.attributes),
        "status": span.status.status_code.name,
        "events": [event.name for event in span.events],
        "took": (span.end_time - span.start_time) / 1e9,
    }
    for span in spans
]))
"""


def test_acquire_and_hold_are_child_spans_of_the_caller() -> None:
    spans = run_program(SPANS)
    found = [
        (
            span["name"],
            span["parent"],
            span["attributes"].get("redlock.outcome") or span["attributes"].get("redlock.end"),
            span["status"],
        )
        for span in spans
    ]
    expected = [
        ("redlock.acquire", "request", "granted", "UNSET"),
        ("redlock.hold", "request", "released", "UNSET"),
        ("request", None, None, "UNSET"),
        ("redlock.acquire", "task", "granted", "UNSET"),
        ("redlock.hold", "task", "released", "UNSET"),
        ("task", None, None, "UNSET"),
        ("redlock.acquire", None, "granted", "UNSET"),
        ("redlock.acquire", None, "refused", "UNSET"),
        ("redlock.acquire", None, "timeout", "ERROR"),
        ("redlock.hold", None, "lost", "ERROR"),
    ]
    # A hold ends on the log thread, so the order varies.
    assert sorted(found, key=str) == sorted(expected, key=str)
    [held] = [
        span for span in spans if (span["name"], span["parent"]) == ("redlock.hold", "request")
    ]
    assert held["took"] > 0.04
    assert held["attributes"]["redlock.key"] == "lock:job"
    assert len(held["attributes"]["redlock.token"]) == 8
    [lost] = [span for span in spans if span["attributes"].get("redlock.end") == "lost"]
    assert lost["events"] == ["lease lost"]
    [failed] = [span for span in spans if span["attributes"].get("redlock.outcome") == "timeout"]
    assert failed["took"] > 0.04


ATTACHED = """
other = redlock.Redlock("memory://shared")
client = redlock.Redlock("memory://shared")

def flush_spans():
    # Spans end in order, so all earlier ones have ended when that of this hold has.
    count = len(exporter.get_finished_spans())
    with client.lock("flush"):
        pass
    until(count + 2)

with client.lock("detached") as lease:
    other.attach("detached", lease.token).detach()
    flush_spans()
    assert lease.held
lease = client.lock("released").acquire()
other.attach("released", lease.token).release()
eventually(lambda: not lease.held)
flush_spans()
holds = [span for span in exporter.get_finished_spans() if span.name == "redlock.hold"]
print(json.dumps([
    [span.attributes["redlock.key"], span.attributes["redlock.end"]] for span in holds
]))
"""


def test_attached_lease_that_ends_does_not_end_the_hold_span() -> None:
    spans = [each for each in run_program(ATTACHED) if each[0] != "lock:flush"]
    # One for each acquire, at the end of its lease.
    assert spans == [["lock:detached", "released"], ["lock:released", "lost"]]


METRICS = """
for _ in range(3):
    with client.lock("job"):
        pass
other = redlock.Redlock("memory://")
otel.instrument(other)
with other.lock("job"):
    during = rows()
lease = client.lock("lost").acquire()
assert client.lock("lost").try_acquire() is None
client.force_release("lost")
while lease.held:
    pass
eventually(lambda: rows().get("redlock.hold.duration{end=lost}") == 1)
after = rows()
otel.uninstrument()
with client.lock("job"):
    pass
# Behind it on the same way, and seen by this client's observer.
otel.instrument(other, tracer_provider=tracers, meter_provider=MeterProvider([]))
before = len(exporter.get_finished_spans())
with other.lock("flush"):
    pass
until(before + 2)
print(json.dumps([during, after, rows()]))
"""


def test_metrics_match_what_the_clients_did() -> None:
    during, after, ended = run_program(METRICS)
    assert (during["redlock.held{}"], after["redlock.held{}"]) == (1, 0)
    for name, count in {
        "redlock.acquires{outcome=granted}": 5,
        "redlock.acquires{outcome=refused}": 1,
        "redlock.acquires{outcome=timeout}": 0,
        "redlock.releases{}": 4,
        "redlock.losses{reason=missing}": 1,
        "redlock.losses{reason=expired}": 0,
        "redlock.wait.duration{outcome=granted}": 5,
        "redlock.wait.duration{outcome=refused}": 1,
        "redlock.hold.duration{end=released}": 4,
        "redlock.hold.duration{end=lost}": 1,
        "redlock.waiting{}": 0,
    }.items():
        assert after[name] == count, (name, after)
    assert ended.get("redlock.wait.duration{outcome=granted}") == 5
    assert "redlock.held{}" not in ended


@pytest.mark.parametrize(
    ("mode", "counted"),
    [("default", 2), ("asynchronous", 2), ("both", 2), ("lock", [2, None]), ("lease", [1, None])],
)
def test_each_client_in_use_is_counted_once(mode: str, counted: Any) -> None:
    program = Path(__file__).with_name("programs") / "counted_clients.py"
    done = subprocess.run(
        [sys.executable, program, mode], capture_output=True, text=True, timeout=60, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == counted


INTERRUPTED = """
import _thread, signal
observed = []
def interrupts(key, waited, outcome, token, holder):
    observed.append(outcome)
    if len(observed) == 1:
        raise KeyboardInterrupt
    raise ZeroDivisionError
redlock._native._observe_by(interrupts)
sys.unraisablehook = lambda raised: observed.append(raised.exc_type.__name__)
try:
    with client.lock("job"):
        observed.append("body")
except KeyboardInterrupt:
    observed.append("interrupted")
with client.lock("job", wait=0):
    observed.append("body")

async def main():
    observed.clear()
    try:
        async with client.lock("job", wait=0):
            observed.append("body")
    except KeyboardInterrupt:
        observed.append("interrupted")
first = list(observed)
try:
    asyncio.run(main())
except KeyboardInterrupt:
    pass
assert client.lock("job").try_acquire() is not None
print(json.dumps([first, observed]))
"""


def test_observer_that_raises_loses_no_lease_and_an_interrupt_leaves_no_key() -> None:
    first, then = run_program(INTERRUPTED, "-W", "ignore")
    assert first == ["granted", "interrupted", "granted", "ZeroDivisionError", "body"]
    assert then[:2] == ["granted", "interrupted"]


MANY = """
import logging
class Raises(logging.Handler):
    def handle(self, record):
        raise ZeroDivisionError
logging.getLogger("redlock").addHandler(Raises())
logging.getLogger("redlock").setLevel(logging.DEBUG)
sys.unraisablehook = lambda _: None
def work(number):
    for turn in range(200):
        with client.lock(f"job-{number}"):
            pass
threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
spans = until(1600)
print(json.dumps([len(spans), len(otel._current.holds)]))
"""


def test_every_hold_span_ends_under_load_with_a_failing_handler() -> None:
    assert run_program(MANY) == [1600, 0]


WORKERS = {"Python": [sys.executable, "worker.py"], "Node.js": ["node", "worker.mjs"]}


@pytest.fixture(params=WORKERS)
def scraped(request: pytest.FixtureRequest) -> Iterator[Callable[[], str]]:
    """Yields what Prometheus receives from the example in each language."""
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        port = place.getsockname()[1]
    worker = subprocess.Popen(
        WORKERS[request.param],
        cwd=OBSERVABILITY,
        env={**os.environ, "PORT": str(port), "REDIS_URL": "memory://"},
    )

    def scrape() -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as page:
                text = str(page.read().decode())
        except OSError:
            return ""
        return text if "redlock_hold_duration_seconds_bucket" in text else ""

    yield lambda: eventually(scrape, "nothing is exported")
    worker.kill()
    worker.wait()


def test_dashboard_and_alerts_query_exported_metrics(
    scraped: Callable[[], str],
) -> None:
    exported = set(re.findall(r"^(redlock_\w+)", scraped(), re.MULTILINE))
    names = {
        name for expression in expressions() for name in re.findall(r"redlock_\w+", expression)
    }
    assert len(names) >= 8
    assert names <= exported, names - exported
    # The dashboard also shows every exported counter.
    counts = {name for name in exported if name.endswith("_total")}
    assert counts <= names, counts - names


LOSSES = Path(__file__).with_name("programs") / "losses.py"
#: A metric of an expression, with its selector.
SELECTOR = r"(redlock_\w+)(?:\{([^}]*)\})?"


def expressions() -> list[str]:
    dashboard = json.loads((OBSERVABILITY / "dashboard.json").read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    return asked + re.findall(r"expr: (.*)", (OBSERVABILITY / "alerts.yml").read_text())


def conditions(selector: str) -> list[tuple[str, str, str]]:
    return re.findall(r'(\w+)(=~|!~|!=|=)"([^"]*)"', selector)


def matches(labels: dict[str, str], selector: str) -> bool:
    """Whether Prometheus selects a series with these labels."""
    for name, operator, value in conditions(selector):
        pattern = value if "~" in operator else re.escape(value)
        if (re.fullmatch(pattern, labels.get(name, "")) is None) is ("!" not in operator):
            return False
    return True


def test_expressions_select_real_series() -> None:
    """A label or a value that no counter has would select nothing, or exclude nothing."""
    done = subprocess.run(
        [sys.executable, LOSSES],
        capture_output=True,
        text=True,
        timeout=90,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    series = [
        (name, dict(re.findall(r'(\w+)="([^"]*)"', labels)), float(value))
        for name, labels, value in re.findall(
            r"^(redlock_\w+?)(?:\{(.*)\})? ([\d.e+-]+)$", done.stdout, re.MULTILINE
        )
    ]
    values: dict[tuple[str, str], set[str]] = {}
    for name, labels, _ in series:
        for label, value in labels.items():
            values.setdefault((name, label), set()).add(value)
    checked = 0
    for expression in expressions():
        for name, selector in re.findall(SELECTOR, expression):
            for label, _, value in conditions(selector):
                checked += 1
                assert set(value.split("|")) <= values[name, label], (expression, values)
            for label in re.findall(r"by \((\w+)\)", expression):
                assert (name, label) in values, (expression, label)
            assert any(other == name and matches(has, selector) for other, has, _ in series)
    assert checked >= 5
    (alert,) = [expression for expression in expressions() if "losses_total{" in expression]
    ((name, selector),) = re.findall(SELECTOR, alert)
    lost = {has["reason"]: count for other, has, count in series if other == name}
    assert {reason: count for reason, count in lost.items() if count} == {
        "missing": 1,
        "revoked": 1,
        "closed": 1,
    }
    # An orderly end of the program is not a loss that an operator looks at. Every other reason is.
    ignored = {reason for reason in lost if not matches({"reason": reason}, selector)}
    assert ignored == {"revoked", "closed"}


def test_without_opentelemetry_the_error_says_what_to_install() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; sys.modules['opentelemetry'] = None; import redlock.otel",
        ],
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert "redlock-native[otel]" in done.stderr, done.stderr
