// A worker with lock metrics for Prometheus. PORT is the metrics port, and REDIS_URL the server.
//
//     npm install redlock-native @opentelemetry/api @opentelemetry/sdk-metrics @opentelemetry/exporter-prometheus
//
// prometheus.yml configures the scrape, and dashboard.json is a Grafana dashboard.
import { setTimeout as sleep } from "node:timers/promises";
import { PrometheusExporter } from "@opentelemetry/exporter-prometheus";
import { MeterProvider } from "@opentelemetry/sdk-metrics";
import { Redlock } from "redlock-native";
import { instrument } from "redlock-native/otel";

const { PORT = "9464", REDIS_URL = "redis://127.0.0.1:6379" } = process.env;
// This exporter does not add the unit to a name, as Prometheus expects and as Python's does.
const views = ["wait", "hold"].map((what) => ({
  instrumentName: `redlock.${what}.duration`,
  name: `redlock.${what}.duration.seconds`,
}));
const exporter = new PrometheusExporter({ host: "127.0.0.1", port: Number(PORT) });
const client = new Redlock(REDIS_URL);
instrument(client, { meterProvider: new MeterProvider({ readers: [exporter], views }) });

async function work() {
  const name = `orders:${Math.floor(Math.random() * 3)}`;
  await client.using(name, { ttl: 5_000, wait: 2_000 }, () => sleep(Math.random() * 10));
}

for (;;) await work();
