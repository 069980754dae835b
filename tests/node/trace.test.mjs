// Lock events on channels and in NODE_DEBUG.
import assert from "node:assert/strict";
import { AsyncLocalStorage } from "node:async_hooks";
import diagnostics from "node:diagnostics_channel";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { trace } from "@opentelemetry/api";
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
} from "@opentelemetry/sdk-trace-base";
import { Redlock } from "redlock-native";
import { assertRefused, eventually, program, Server, uniqueName } from "./helper.mjs";
import { pageBlocks } from "./page-blocks.mjs";
import { describe, slow, test } from "./testing.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));
const client = () => new Redlock(`memory://${uniqueName()}`);

/** Collects the messages on the channel of these calls until `end`. */
function hear(name) {
  const told = [];
  const events = ["start", "end", "asyncStart", "asyncEnd", "error"];
  const each = events.map((event) => [event, (call) => told.push([event, call])]);
  const channel = diagnostics.tracingChannel(`redlock:${name}`);
  channel.subscribe(Object.fromEntries(each));
  return {
    told,
    kinds: () => told.map(([kind]) => kind),
    end: () => channel.unsubscribe(Object.fromEntries(each)),
  };
}

describe("channels", () => {
  test("acquire: start and end with the key and the lease", async () => {
    const heard = hear("acquire");
    const redlock = client();
    const lease = await redlock.lock(["a", "b"]).acquire();
    heard.end();
    assert.deepEqual(heard.kinds(), ["start", "end", "asyncStart", "asyncEnd"]);
    const [, call] = heard.told.at(-1);
    assert.equal(call.key, "lock:a, lock:b");
    assert.equal(call.result, lease);
    await redlock.shutdown(0);
    assert.equal(heard.told.length, 4);
  });

  test("acquire: the error, or null for a refused tryAcquire", async () => {
    const redlock = client();
    const lease = await redlock.lock("job").acquire();
    const heard = hear("acquire");
    const failed = await redlock
      .lock("job", { wait: 0 })
      .acquire()
      .catch((error) => error);
    assert.deepEqual(heard.kinds(), ["start", "end", "error", "asyncStart", "asyncEnd"]);
    assert.equal(heard.told.at(-1)[1].error, failed);
    await assertRefused(redlock.lock("job"));
    assert.equal(heard.told.at(-1)[1].result, null);
    heard.end();
    await lease.release();
    redlock.close();
  });

  test("using, extend and release", async () => {
    const [acquires, extensions, releases] = ["acquire", "extend", "release"].map(hear);
    await client().using("job", (lease) => lease.extend(20_000));
    for (const heard of [acquires, extensions, releases]) {
      assert.deepEqual(heard.kinds(), ["start", "end", "asyncStart", "asyncEnd"]);
      assert.equal(heard.told[0][1].key, "lock:job");
      heard.end();
    }
  });

  test("lost: leases that were acquired after the subscription", async () => {
    const redlock = client();
    const told = [];
    const listen = (loss) => told.push(loss);
    diagnostics.subscribe("redlock:lost", listen);
    await redlock.lock("job").acquire();
    await redlock.forceRelease("job");
    await eventually(() => assert.equal(told.length, 1));
    assert.deepEqual([told[0].key, told[0].error.reason], ["lock:job", "missing"]);
    diagnostics.unsubscribe("redlock:lost", listen);
    redlock.close();
  });

  test("renew: background renewals while there is a subscriber", async () => {
    const redlock = client();
    const lease = await redlock.lock("kept", { ttl: 1_500 }).acquire();
    const told = [];
    const listen = (renewal) => told.push(renewal);
    diagnostics.subscribe("redlock:renew", listen);
    // Received from the next call on.
    redlock.stats();
    await redlock.using("other", () => undefined);
    const ours = () => told.filter(({ key }) => key === "lock:kept");
    await eventually(() => assert.ok(ours().length > 2));
    diagnostics.unsubscribe("redlock:renew", listen);
    assert.equal(told.length, ours().length, "nothing but renewals");
    const { remaining, ...rest } = told[0];
    assert.deepEqual(rest, { key: "lock:kept", token: lease.token.slice(0, 8), renewed: true });
    assert.ok(remaining > 100 && remaining <= 1_500, `${remaining}`);
    await lease.release();
    redlock.close();
  });

  test("renew: an unconfirmed renewal with all keys of the lease", async () => {
    const told = [];
    const listen = (renewal) => told.push(renewal);
    const server = await Server.start();
    // A lease does not keep a process alive.
    const work = setInterval(() => undefined, 1_000);
    try {
      const redlock = new Redlock(server.url);
      const lease = await redlock.lock(["{a}1", "{a}2"], { ttl: 3_000 }).acquire();
      diagnostics.subscribe("redlock:renew", listen);
      redlock.stats();
      await redlock.using("other", () => undefined);
      server.process.kill("SIGKILL");
      const failed = () => told.filter(({ renewed }) => !renewed);
      await eventually(() => assert.ok(failed().length > 0));
      const [{ remaining, ...rest }] = failed();
      const key = "lock:{a}1, lock:{a}2";
      assert.deepEqual(rest, { key, token: lease.token.slice(0, 8), renewed: false });
      assert.ok(remaining >= 0 && remaining < 3_000, `${remaining}`);
      redlock.close();
    } finally {
      clearInterval(work);
      diagnostics.unsubscribe("redlock:renew", listen);
      await server.stop();
    }
  });

  test("connect: a connection, one message per outage, and its end", async () => {
    const told = [];
    const listen = (connection) => told.push(connection);
    diagnostics.subscribe("redlock:connect", listen);
    const server = await Server.start();
    try {
      const redlock = new Redlock(server.url);
      const lease = await redlock.lock("job", { ttl: 60_000 }).acquire();
      const node = server.shown;
      await eventually(() => assert.deepEqual(told, [{ node, connected: true }]));
      server.process.kill("SIGKILL");
      await once(server.process, "exit");
      await eventually(() => assert.equal(told.length, 2));
      // An outage begins when a connection is needed.
      await assert.rejects(redlock.lock("other", { wait: 0 }).acquire());
      const reported = performance.now();
      assert.equal(told[1].connected, false);
      assert.equal(typeof told[1].fault, "string");
      await assert.rejects(server.cli("PING"));
      const least = Math.floor(performance.now() - reported);
      await server.begin();
      await eventually(() => assert.equal(told.length, 3));
      assert.equal(told[2].connected, true);
      assert.ok(told[2].outage >= least, `${told[2].outage} ms, not ${least}`);
      await assert.rejects(lease.release());
      redlock.close();
    } finally {
      diagnostics.unsubscribe("redlock:connect", listen);
      await server.stop();
    }
  });

  slow(
    "it blocks a thread for real seconds, while short leases are renewed",
    "a subscriber that throws or blocks its thread does not lose leases",
    async () => {
      const { code, stderr, lines } = await program("listens");
      assert.equal(code, 0, stderr);
      assert.equal(lines.at(-1), "held");
    },
  );

  test("a store that is bound to a channel is set during the call", async () => {
    const store = new AsyncLocalStorage();
    const channel = diagnostics.tracingChannel("redlock:acquire");
    channel.start.bindStore(store, ({ key }) => `span of ${key}`);
    const seen = [];
    const ended = () => seen.push(store.getStore());
    channel.subscribe({ asyncEnd: ended });
    await client().using("job", () => undefined);
    channel.unsubscribe({ asyncEnd: ended });
    channel.start.unbindStore(store);
    assert.deepEqual(seen, ["span of lock:job"]);
  });
});

test("the example of the pages creates OpenTelemetry spans", async () => {
  const exporter = new InMemorySpanExporter();
  trace.setGlobalTracerProvider(
    new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }),
  );
  const [block] = (await pageBlocks("how-to"))
    .map(({ code }) => code)
    .filter((code) => code.includes('from "@opentelemetry/api"'));
  // As JavaScript, after removing a few types.
  const types = [/<unknown, LockCall>/, /type LockCall, /, /<object, ReturnType.*?>>/, / as Error/];
  const code = types.reduce((text, type) => text.replace(type, ""), block);
  // Inside this tree, the package is found by its own name.
  const folder = await mkdtemp(join(root, "bindings-node", "dist", "trace-"));
  try {
    await writeFile(join(folder, "spans.mjs"), code.replace(/^console.*$/m, ""));
    await import(join(folder, "spans.mjs"));
    const redlock = client();
    await redlock.using("job", async () => {
      await redlock
        .lock("job", { wait: 0 })
        .acquire()
        .catch(() => undefined);
    });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
  const found = exporter.getFinishedSpans().map(({ name, attributes, status, events }) => {
    return [name, attributes["lock.key"], status.code, events.length];
  });
  assert.deepEqual(found, [
    ["lock acquire", "lock:job", 0, 0],
    ["lock acquire", "lock:job", 2, 1],
    ["lock release", "lock:job", 0, 0],
  ]);
});

test("NODE_DEBUG=redlock prints events on stderr", async () => {
  const { code, stderr } = await program("debugs", [], { env: { NODE_DEBUG: "redlock" } });
  assert.equal(code, 0, stderr);
  for (const line of [
    /REDLOCK \d+: acquire lock:job: done after \d+ ms/,
    /acquire lock:job: held by another after/,
    /acquire lock:job: timeout after \d+ ms .*lock:job/,
    /extend lock:job: done after/,
    /release lock:job: done after/,
    /lost lock:job: .*the key is gone/,
    /granted key=lock:job token=[0-9a-f]{8} ttl_ms=10000 waited_ms=/,
    /released key=lock:job token=[0-9a-f]{8} held_ms=/,
  ]) {
    assert.match(stderr, line);
  }
  const quiet = await program("debugs");
  assert.doesNotMatch(quiet.stderr, /REDLOCK \d+:/);
});
