"""Instruments a client through one or several of its objects, and prints the exported counts: MODE."""

import json
import sys
from typing import Any

import redlock
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from redlock import otel

reader = InMemoryMetricReader()
meters = MeterProvider([reader])


def granted() -> Any:
    """Returns the exported number of granted acquires, or None if no client is counted."""
    data = reader.get_metrics_data()
    for resource in data.resource_metrics if data else ():
        for metric in (each for scope in resource.scope_metrics for each in scope.metrics):
            for point in metric.data.data_points:
                if metric.name == "redlock.acquires" and point.attributes["outcome"] == "granted":
                    return point.value
    return None


def use(lock: redlock.Lock) -> Any:
    """Acquires the lock twice and returns the exported count."""
    for _ in range(2):
        with lock:
            pass
    return granted()


def default() -> Any:
    otel.instrument(redlock.configure("memory://"), meter_provider=meters)
    return use(redlock.lock("job"))


def asynchronous() -> Any:
    client = redlock.Redlock("memory://")
    otel.instrument(client.as_async(), meter_provider=meters)
    return use(client.lock("job"))


def both() -> Any:
    client = redlock.Redlock("memory://")
    aclient = client.as_async()
    otel.instrument(client, aclient, meter_provider=meters)
    return use(client.lock("job"))


def lock() -> Any:
    """The program keeps only a lock, and later nothing of the client."""
    client = redlock.Redlock("memory://")
    otel.instrument(client, meter_provider=meters)
    lock = client.lock("job")
    del client
    counts = [use(lock)]
    del lock
    return [*counts, granted()]


def lease() -> Any:
    """The program keeps only a lease, and later nothing of the client."""
    client = redlock.Redlock("memory://")
    otel.instrument(client, meter_provider=meters)
    lease = client.lock("job").acquire()
    del client
    counts = [granted()]
    lease.release()
    del lease
    return [*counts, granted()]


modes = {
    "default": default,
    "asynchronous": asynchronous,
    "both": both,
    "lock": lock,
    "lease": lease,
}
print(json.dumps(modes[sys.argv[1]]()))
