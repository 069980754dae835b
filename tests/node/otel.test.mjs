// Spans and metrics of redlock-native/otel with the real SDK.
import assert from "node:assert/strict";
import { AsyncLocalStorage } from "node:async_hooks";
import { context, ROOT_CONTEXT, SpanStatusCode, trace } from "@opentelemetry/api";
import { MeterProvider, MetricReader } from "@opentelemetry/sdk-metrics";
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
} from "@opentelemetry/sdk-trace-base";
import { Redlock } from "redlock-native";
import { instrument, uninstrument } from "redlock-native/otel";
import { block, eventually, refusal, uniqueName } from "./helper.mjs";
import { after, afterEach, before, beforeEach, describe, test } from "./testing.mjs";

/** A reader that collects on request. */
class Reader extends MetricReader {
  async onShutdown() {}
  async onForceFlush() {}
}

/** The active context, as in an application with async hooks. */
const store = new AsyncLocalStorage();
const manager = {
  active: () => store.getStore() ?? ROOT_CONTEXT,
  with: (active, body, self, ...args) => store.run(active, () => body.apply(self, args)),
  bind: (active, body) => () => store.run(active, body),
  enable: () => manager,
  disable: () => manager,
};
before(() => context.setGlobalContextManager(manager));
after(() => context.disable());

let exporter;
let reader;
let providers;
let redlock;
beforeEach(() => {
  exporter = new InMemorySpanExporter();
  reader = new Reader();
  providers = {
    tracerProvider: new BasicTracerProvider({
      spanProcessors: [new SimpleSpanProcessor(exporter)],
    }),
    meterProvider: new MeterProvider({ readers: [reader] }),
  };
  redlock = new Redlock(`memory://${uniqueName()}`);
  instrument(redlock, providers);
});
afterEach(() => {
  uninstrument();
  redlock.close();
});

/** Runs `body` in a span of the application. */
async function within(name, body) {
  const tracer = providers.tracerProvider.getTracer("app");
  const span = tracer.startSpan(name);
  await context.with(trace.setSpan(context.active(), span), body);
  span.end();
}

/** Resolves with the spans that have ended, once there are this many. */
async function until(count) {
  await eventually(() => assert.ok(exporter.getFinishedSpans().length >= count));
  return exporter.getFinishedSpans();
}

/** The values of all metrics, by name and attributes. */
async function rows() {
  const { resourceMetrics, errors } = await reader.collect();
  assert.deepEqual(errors, []);
  const found = {};
  for (const { metrics } of resourceMetrics.scopeMetrics) {
    for (const { descriptor, dataPoints } of metrics) {
      for (const { attributes, value } of dataPoints) {
        const words = Object.entries(attributes).map((each) => each.join("="));
        found[`${descriptor.name}{${words}}`] = value.count ?? value;
      }
    }
  }
  return found;
}

const seconds = ([whole, nanos]) => whole + nanos / 1e9;
const took = ({ duration }) => seconds(duration);

describe("spans", () => {
  test("of an acquire and a hold are children of the caller's span", async () => {
    await within("request", () => redlock.using("job", () => block(50)));
    await within("other", async () => {
      const lease = await redlock.lock("job").acquire();
      await redlock.lock("job").tryAcquire();
      await assert.rejects(redlock.lock("job", { wait: 0 }).acquire(), { kind: "timeout" });
      await redlock.forceRelease("job");
      await eventually(() => assert.ok(!lease.held));
    });
    const spans = await until(8);
    const names = new Map(spans.map((span) => [span.spanContext().spanId, span.name]));
    const found = spans.map(({ name, parentSpanContext: parent, attributes, status }) => [
      name,
      parent && names.get(parent.spanId),
      attributes["redlock.outcome"] ?? attributes["redlock.end"],
      SpanStatusCode[status.code],
    ]);
    const expected = [
      ["redlock.acquire", "request", "granted", "UNSET"],
      ["redlock.hold", "request", "released", "UNSET"],
      ["request", undefined, undefined, "UNSET"],
      ["redlock.acquire", "other", "granted", "UNSET"],
      ["redlock.acquire", "other", "refused", "UNSET"],
      ["redlock.acquire", "other", "timeout", "ERROR"],
      ["redlock.hold", "other", "lost", "ERROR"],
      ["other", undefined, undefined, "UNSET"],
    ];
    assert.deepEqual(found.map(String).sort(), expected.map(String).sort());
    const [held, lost] = spans.filter(({ name }) => name === "redlock.hold");
    assert.ok(took(held) > 0.04, `${took(held)}`);
    assert.equal(held.attributes["redlock.key"], "lock:job");
    assert.match(held.attributes["redlock.token"], /^[0-9a-f]{8}$/);
    const [{ name, attributes }] = lost.events;
    assert.deepEqual([name, attributes], ["lease lost", { "redlock.reason": "missing" }]);
    assert.equal(lost.status.message, "lease lost: missing");
    const failed = spans.find(({ status }) => status.message === "timeout");
    assert.equal(failed.kind, 2, "CLIENT");
  });

  test("have the label of the holder", async () => {
    const lease = await redlock.lock("job", { label: "theirs" }).acquire();
    await assert.rejects(redlock.lock("job", { wait: 0 }).acquire(), { kind: "timeout" });
    const failed = exporter.getFinishedSpans().find(({ status }) => status.code === 2);
    assert.equal(failed.attributes["redlock.holder"], "theirs");
    await lease.release();
  });

  test("of a hold do not end with a lease from attach", async () => {
    const lease = await redlock.lock("job").acquire();
    (await redlock.attach("job", lease.token)).detach();
    await redlock.using("later", () => undefined);
    const holds = () =>
      exporter
        .getFinishedSpans()
        .filter(({ name }) => name === "redlock.hold")
        .map(({ attributes }) => `${attributes["redlock.key"]} ${attributes["redlock.end"]}`);
    await eventually(() => assert.deepEqual(holds(), ["lock:later released"]));
    await lease.release();
    await eventually(() => assert.deepEqual(holds(), ["lock:later released", "lock:job released"]));
  });

  test("are not made of an aborted acquire", async () => {
    const lease = await redlock.lock("job").acquire();
    const signal = AbortSignal.timeout(20);
    await assert.rejects(redlock.lock("job").acquire({ signal }), { name: "TimeoutError" });
    await lease.release();
    await until(2);
    const acquires = exporter.getFinishedSpans().filter(({ name }) => name === "redlock.acquire");
    assert.equal(acquires.length, 1);
  });

  test("of leases that are still held end with uninstrument", async () => {
    const lease = await redlock.lock("job").acquire();
    uninstrument();
    const [hold] = exporter.getFinishedSpans().filter(({ name }) => name === "redlock.hold");
    assert.equal(hold.attributes["redlock.end"], undefined);
    await lease.release();
    await redlock.using("job", () => undefined);
    assert.equal(exporter.getFinishedSpans().length, 2);
  });
});

describe("metrics", () => {
  test("match what the clients did", async () => {
    for (let turn = 0; turn < 3; turn += 1) await redlock.using("job", () => undefined);
    const other = new Redlock(`memory://${uniqueName()}`);
    instrument([other, redlock]);
    let during;
    await other.using("job", async () => {
      during = await rows();
    });
    const lease = await redlock.lock("lost").acquire();
    assert.equal(await redlock.lock("lost").tryAcquire(), null);
    await redlock.forceRelease("lost");
    await eventually(() => assert.ok(!lease.held));
    await eventually(async () => {
      assert.equal((await rows())["redlock.hold.duration{end=lost}"], 1);
    });
    const found = await rows();
    assert.deepEqual([during["redlock.held{}"], found["redlock.held{}"]], [1, 0]);
    for (const [name, count] of Object.entries({
      "redlock.acquires{outcome=granted}": 5,
      "redlock.acquires{outcome=refused}": 1,
      "redlock.acquires{outcome=timeout}": 0,
      "redlock.acquires{outcome=unavailable}": 0,
      "redlock.renewals{outcome=confirmed}": 0,
      "redlock.renewals{outcome=unconfirmed}": 0,
      "redlock.releases{}": 4,
      "redlock.reconnects{}": 0,
      "redlock.losses{reason=missing}": 1,
      "redlock.losses{reason=expired}": 0,
      "redlock.wait.duration{outcome=granted}": 5,
      "redlock.wait.duration{outcome=refused}": 1,
      "redlock.hold.duration{end=released}": 4,
      "redlock.hold.duration{end=lost}": 1,
      "redlock.waiting{}": 0,
    })) {
      assert.equal(found[name], count, `${name} ${JSON.stringify(found)}`);
    }
    uninstrument();
    // The SDK repeats the last values. New ones do not arrive.
    const ended = await redlock.using("job", () => rows());
    assert.equal(ended["redlock.wait.duration{outcome=granted}"], 5);
    assert.equal(ended["redlock.acquires{outcome=granted}"], 5);
    assert.equal(ended["redlock.held{}"] ?? 0, 0);
    other.close();
  });

  test("of a closed client are still counted", async () => {
    await redlock.using("job", () => undefined);
    redlock.close();
    assert.equal((await rows())["redlock.acquires{outcome=granted}"], 1);
  });
});

test("instrument checks its clients", () => {
  for (const wrong of [undefined, {}, [redlock, "memory://"], "memory://"]) {
    assert.throws(() => instrument(wrong, providers), refusal(["instrument()", "Redlock"]));
  }
});
