"""OpenTelemetry: a span for each acquire and each hold, and metrics. `pip install redlock-native[otel]`.

    client = redlock.Redlock("redis://127.0.0.1:6379")
    redlock.otel.instrument(client)

Without this import, redlock imports nothing of OpenTelemetry and records nothing for it.
"""

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

try:
    from opentelemetry import metrics, trace
    from opentelemetry.metrics import CallbackOptions, Observation
    from opentelemetry.trace import SpanKind, Status, StatusCode
except ImportError as _missing:
    raise ImportError(
        "redlock.otel needs OpenTelemetry: install redlock-native[otel]"
    ) from _missing

from redlock import AsyncRedlock, Redlock, Stats, __version__, _log
from redlock._native import _observe_by

#: The maximum number of holds that are remembered until they end.
_MAX_HOLDS = 10_000
#: Boundaries of the histograms, in seconds: from an uncontended acquire to a job of hours.
_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 1800, 7200)

_Counts = Iterator[tuple[dict[str, str], float]]


def _acquires(stats: Stats) -> _Counts:
    for outcome in ("granted", "refused", "timed_out", "unavailable"):
        word = "timeout" if outcome == "timed_out" else outcome
        yield {"outcome": word}, getattr(stats, outcome)


def _renewals(stats: Stats) -> _Counts:
    yield {"outcome": "confirmed"}, stats.renewed
    yield {"outcome": "unconfirmed"}, stats.unrenewed


def _losses(stats: Stats) -> _Counts:
    for reason, count in stats.lost.items():
        yield {"reason": reason}, count


def _plain(name: str) -> Callable[[Stats], _Counts]:
    def read(stats: Stats) -> _Counts:
        yield {}, getattr(stats, name)

    return read


_COUNTERS: "dict[str, tuple[Callable[[Stats], _Counts], str]]" = {
    "redlock.acquires": (_acquires, "Acquires that ended, by outcome."),
    "redlock.renewals": (_renewals, "Renewals, by whether a quorum confirmed them."),
    "redlock.losses": (_losses, "Leases that were lost, by reason."),
    "redlock.releases": (_plain("released"), "Leases that their owner released."),
    "redlock.reconnects": (_plain("reconnects"), "Connections that were opened again."),
}
_GAUGES = {
    "redlock.held": (_plain("held"), "Leases that are held now."),
    "redlock.waiting": (_plain("waiting"), "Acquires that are under way now."),
}


class _Instruments:
    """The spans and metrics of locks, from :func:`instrument` to :func:`uninstrument`."""

    def __init__(self, tracer: trace.Tracer, meter: metrics.Meter) -> None:
        self.tracer = tracer
        #: Functions that return the statistics of clients, by the number of the client. A client may have several
        #: objects, and may be in use without any of them, such as the default client.
        self.clients: dict[int, Callable[[], Stats | None]] = {}
        #: Spans of holds, by token prefix, oldest first. Used without a lock, because a signal handler may acquire a
        #: lease while this thread records one, and a forked child while another thread did.
        self.holds: dict[str, tuple[trace.Span, int]] = {}
        for name, (read, about) in _COUNTERS.items():
            meter.create_observable_counter(name, [self._observed(read)], description=about)
        for name, (read, about) in _GAUGES.items():
            meter.create_observable_gauge(name, [self._observed(read)], description=about)
        self.wait, self.hold = (
            meter.create_histogram(
                name,
                "s",
                about,
                explicit_bucket_boundaries_advisory=_SECONDS,
            )
            for name, about in [
                ("redlock.wait.duration", "How long acquires took, by outcome."),
                ("redlock.hold.duration", "How long leases were held, by how they ended."),
            ]
        )

    def _observed(
        self, read: Callable[[Stats], _Counts]
    ) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_: CallbackOptions) -> Iterable[Observation]:
            if _current is not self:
                return
            totals: dict[tuple[tuple[str, str], ...], float] = {}
            for number, read_stats in self.clients.copy().items():
                stats = read_stats()
                if stats is None:
                    self.clients.pop(number, None)
                    continue
                for attributes, count in read(stats):
                    row = tuple(attributes.items())
                    totals[row] = totals.get(row, 0) + count
            for row, total in totals.items():
                yield Observation(total, dict(row))

        return observe

    def acquired(
        self, key: str, waited: float, outcome: str, token: str | None, holder: str | None
    ) -> None:
        """Records the outcome of an acquire, in the context of the caller."""
        now = time.time_ns()
        began = now - int(waited * 1e9)
        attributes = {"redlock.key": key, "redlock.outcome": outcome}
        self.wait.record(waited, {"outcome": outcome})
        span = self.tracer.start_span(
            "redlock.acquire", kind=SpanKind.CLIENT, attributes=attributes, start_time=began
        )
        if holder is not None:
            span.set_attribute("redlock.holder", holder)
        if outcome not in ("granted", "refused"):
            span.set_status(Status(StatusCode.ERROR, outcome))
        span.end(now)
        if token is None:
            return
        attributes = {"redlock.key": key, "redlock.token": token}
        hold = self.tracer.start_span("redlock.hold", attributes=attributes, start_time=now)
        # Not by the key, which log records shorten and escape.
        left = [self.holds.pop(token, None)]
        self.holds[token] = hold, now
        if len(self.holds) > _MAX_HOLDS:
            left.append(self.holds.pop(self._oldest(), None))
        for replaced in left:
            if replaced is not None:
                replaced[0].end()

    def _oldest(self) -> str:
        while True:
            # Another thread may change the dict between both steps.
            with suppress(RuntimeError):
                return next(iter(self.holds), "")

    def event(self, _topic: str, template: str, values: dict[str, object]) -> None:
        """Records the end of a lease. The log thread calls this for each event of the topic."""
        if template not in ("released", "detached", "lease lost"):
            return
        end = "lost" if template == "lease lost" else template
        held = float(str(values["held_ms"])) / 1e3
        self.hold.record(held, {"end": end})
        if values.get("attached"):
            # The span belongs to the lease that was acquired, and ends with it.
            return
        found = self.holds.pop(str(values["token"]), None)
        if found is None:
            return
        span, began = found
        span.set_attribute("redlock.end", end)
        if end == "lost":
            reason = str(values["reason"])
            span.add_event("lease lost", {"redlock.reason": reason})
            span.set_status(Status(StatusCode.ERROR, f"lease lost: {reason}"))
        span.end(max(began, began + int(held * 1e9)))


_current: _Instruments | None = None
#: Reentrant, because a signal handler may interrupt its owner.
_guard = threading.RLock()


def _after_fork() -> None:
    global _guard
    # A thread of the parent may have held it during the fork.
    _guard = threading.RLock()
    if _current is not None:
        # The leases, and therefore their spans, belong to the parent.
        _current.holds = {}


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def instrument(
    *clients: Redlock | AsyncRedlock,
    tracer_provider: trace.TracerProvider | None = None,
    meter_provider: metrics.MeterProvider | None = None,
) -> None:
    """Records spans and durations of all locks of this process, and counts of the given clients.

    Another call adds clients, and keeps the providers of the first call.

    Args:
        *clients: The clients to count, until the program no longer uses them.
        tracer_provider: The provider of spans. Default: the global one.
        meter_provider: The provider of metrics. Default: the global one.
    """
    global _current
    with _guard:
        if _current is None:
            tracer = trace.get_tracer("redlock", __version__, tracer_provider)
            meter = metrics.get_meter("redlock", __version__, meter_provider)
            _current = _Instruments(tracer, meter)
            _observe_by(_current.acquired)
            _log.subscribe("lease", _current.event)
        for number, read_stats in _current.clients.copy().items():
            # Otherwise ended clients would add up if no reader collects the metrics.
            if read_stats() is None:
                _current.clients.pop(number, None)
        for client in clients:
            sync = client.as_sync() if isinstance(client, AsyncRedlock) else client
            number, read_stats = sync._stats_reader()
            _current.clients[number] = read_stats


def uninstrument() -> None:
    """Stops recording, and ends the spans of leases that are still held."""
    global _current
    with _guard:
        old, _current = _current, None
        if old is None:
            return
        _observe_by(None)
        _log.subscribe("lease", None)
    while old.holds:
        # The log thread may take the last one first.
        with suppress(KeyError):
            old.holds.popitem()[1][0].end()
