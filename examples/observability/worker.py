"""A worker with lock metrics for Prometheus. PORT is the metrics port, and REDIS_URL the server.

prometheus.yml configures the scrape, and dashboard.json is a Grafana dashboard.
"""

import os
import random
import time

import redlock
import redlock.otel
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from prometheus_client import start_http_server

client = redlock.Redlock(os.environ.get("REDIS_URL", "redis://127.0.0.1:6379"))
redlock.otel.instrument(client, meter_provider=MeterProvider([PrometheusMetricReader()]))


def work() -> None:
    with client.lock(f"orders:{random.randrange(3)}", ttl=5, wait=2):
        time.sleep(random.random() / 100)


if __name__ == "__main__":
    start_http_server(int(os.environ.get("PORT", "9464")), "127.0.0.1")
    while True:
        work()
