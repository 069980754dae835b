"""Prints the metrics of a deleted lease, of one that `release_all` ended, and of one whose client was closed."""

import threading

import pytest
import redlock
import redlock.otel
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from prometheus_client import generate_latest

from tests.waiting import eventually

client, closed = redlock.Redlock("memory://"), redlock.Redlock("memory://")
provider = MeterProvider([PrometheusMetricReader()])
redlock.otel.instrument(client, closed, meter_provider=provider)


def lose(lease: redlock.Lease, reason: str) -> None:
    with pytest.raises(redlock.LockLost) as caught:
        lease.release()
    assert caught.value.reason == reason


deleted = client.lock("deleted").acquire()
notified = threading.Event()
deleted.on_lost(lambda error: notified.set())
client.force_release("deleted")
assert notified.wait(30)
lose(deleted, "missing")
revoked = client.lock("revoked").acquire()
assert client.release_all() == 1
lose(revoked, "revoked")
other = closed.lock("closed").acquire()
closed.close()
lose(other, "closed")
with client.lock("released"):
    assert client.lock("released").try_acquire() is None
# A hold is recorded by another thread.
eventually(lambda: b"redlock_hold_duration_seconds_bucket" in generate_latest(), "no hold")
print(generate_latest().decode())
