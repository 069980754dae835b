// The program's log: what each event has, its levels, and listeners that throw, block or end.
import assert from "node:assert/strict";
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { onLog, onWarning, Redlock } from "redlock-native";
import { eventually, program, refusal, Server, uniqueName } from "./helper.mjs";
import { describe, test } from "./testing.mjs";

const client = () => new Redlock(`memory://${uniqueName()}`);

/** Collects the events with this text in a field until `stop()`. */
function collect(about, options) {
  const events = [];
  const stop = onLog((event) => {
    if (Object.values(event.fields).some((value) => String(value).includes(about)))
      events.push(event);
  }, options);
  return { events, stop, kinds: () => events.map(({ event }) => event) };
}

describe("onLog", () => {
  test("receives each step of a lease with its data", async () => {
    const [redlock, name] = [client(), uniqueName()];
    const { events, stop, kinds } = collect(name);
    const lease = await redlock.lock(name).acquire();
    await lease.release();
    await eventually(() => assert.deepEqual(kinds(), ["granted", "released"]));
    stop();
    const [granted, released] = events;
    const token = lease.token.slice(0, 8);
    const { waited_ms: waited, ...fields } = granted.fields;
    assert.deepEqual(fields, { key: `lock:${name}`, token, ttl_ms: 10_000 });
    assert.equal(typeof waited, "number");
    assert.deepEqual(
      { ...granted, fields: {} },
      {
        level: "debug",
        logger: "redlock.acquire",
        event: "granted",
        message: "granted",
        fields: {},
      },
    );
    assert.equal(released.logger, "redlock.lease");
    assert.ok(released.fields.held_ms >= 0);
    assert.ok(!JSON.stringify(events).includes(lease.token), "a whole token");
    redlock.close();
  });

  test("event is the same for all events of a kind, and its parts are fields", async () => {
    const [redlock, name] = [client(), uniqueName()];
    const lease = await redlock.lock(name, { label: "theirs" }).acquire();
    const { events, stop } = collect(name);
    const end = new AbortController();
    const waits = redlock.lock(name).acquire({ signal: end.signal });
    const found = () => events.find(({ event }) => event === "waiting: {why}");
    await eventually(() => assert.ok(found()));
    end.abort();
    await assert.rejects(waits, { name: "AbortError" });
    stop();
    const waiting = found();
    assert.equal(waiting.message, `waiting: ${waiting.fields.why}`);
    assert.equal(waiting.fields.holder, "theirs");
    await lease.release();
    redlock.close();
  });

  test("receives the end of an outage, and no password of a URL", async () => {
    const server = await Server.start([
      "--user",
      "logs",
      "on",
      ">s3cret-word",
      "~*",
      "&*",
      "+@all",
    ]);
    const events = [];
    const stop = onLog((event) => events.push(event), { level: "info" });
    const url = `redis://logs:s3cret-word@127.0.0.1:${server.port}`;
    // A lease does not keep a process alive.
    const work = setInterval(() => undefined, 1_000);
    try {
      const redlock = new Redlock(url);
      await redlock.using("before", () => undefined);
      server.process.kill("SIGKILL");
      await once(server.process, "exit");
      const ours = (start) =>
        events.find(({ event, fields }) => event.startsWith(start) && fields.node === server.shown);
      while (ours("unavailable for") === undefined) {
        await redlock
          .lock(uniqueName())
          .tryAcquire()
          .catch(() => undefined);
      }
      const begin = ours("unavailable for");
      assert.deepEqual([begin.level, begin.logger], ["warn", "redlock.node"]);
      assert.match(begin.fields.fault, /refused|closed|reset/);
      assert.ok(begin.fields.failures >= 1 && begin.fields.outage_ms >= 0);
      await server.begin();
      await redlock.lock(uniqueName()).acquire();
      await eventually(() => assert.ok(ours("available again")));
      const end = ours("available again");
      assert.equal(end.level, "info");
      assert.ok(end.fields.outage_ms >= begin.fields.outage_ms);
      assert.ok(!JSON.stringify(events).includes("s3cret"), JSON.stringify(events));
      redlock.close();
    } finally {
      clearInterval(work);
      stop();
      await server.stop();
    }
  });

  test("level leaves out less important events", async () => {
    const [redlock, name] = [client(), uniqueName()];
    const heard = ["warn", "info", "debug"].map((level) => [level, collect(name, { level })]);
    await redlock.lock(name).acquire();
    await redlock.forceRelease(name);
    await eventually(() => {
      for (const [, { kinds }] of heard) assert.equal(kinds().at(-1), "lease lost");
    });
    await redlock.lock(name).acquire();
    await redlock.releaseAll();
    const [, { kinds: all }] = heard[2];
    const losses = (kinds) => kinds.filter((kind) => kind === "lease lost").length;
    await eventually(() => assert.equal(losses(all()), 2));
    for (const [, { stop }] of heard) stop();
    const counts = heard.map(([level, { events }]) => {
      return [level, events.filter((each) => each.event === "lease lost").length];
    });
    // The second loss was requested, so it is INFO.
    assert.deepEqual(counts, [
      ["warn", 1],
      ["info", 2],
      ["debug", 2],
    ]);
    assert.ok(heard[1][1].kinds().every((kind) => kind !== "granted"));
    assert.ok(all().includes("granted"));
    redlock.close();
  });

  test("the returned function removes its listener and no other", async () => {
    const [redlock, name] = [client(), uniqueName()];
    const [first, second] = [collect(name), collect(name)];
    first.stop();
    first.stop();
    await redlock.using(name, () => undefined);
    await eventually(() => assert.deepEqual(second.kinds(), ["granted", "released"]));
    second.stop();
    assert.deepEqual(first.kinds(), []);
    redlock.close();
  });

  test("checks its arguments", () => {
    for (const wrong of [undefined, null, "console.log", {}]) {
      assert.throws(() => onLog(wrong), refusal(["onLog()", "function"]));
    }
    const listen = () => undefined;
    const levels = ["error", "warn", "info", "debug"];
    assert.throws(() => onLog(listen, { level: "trace" }), refusal(["level", "trace", ...levels]));
    assert.throws(() => onLog(listen, { level: 10 }), refusal(["onLog()", "level"]));
    assert.throws(() => onLog(listen, { levels: "info" }), refusal(["onLog()", "level"]));
  });

  test("its listener gets an event of this package, such as ignored settings", () => {
    const { events, stop } = collect("madeUp");
    const settings = { host: "a", port: 6379, madeUp: 5 };
    onWarning(() => undefined);
    Redlock.fromClient({ isCluster: false, options: settings });
    onWarning(null);
    stop();
    assert.equal(events.length, 1);
    const [{ level, logger, event, message, fields }] = events;
    assert.deepEqual([level, logger], ["warn", "redlock.client"]);
    assert.equal(message, event.replace("{settings}", fields.settings));
  });

  test("a listener may change its event and remove itself", async () => {
    const [redlock, name] = [client(), uniqueName()];
    const changed = [];
    const stopChanging = onLog((event) => {
      stopChanging();
      changed.push(event.event);
      event.fields.key = "changed";
    });
    const { events, stop } = collect(name);
    await redlock.using(name, () => undefined);
    await eventually(() => assert.equal(events.length, 2));
    stop();
    assert.equal(changed.length, 1);
    assert.deepEqual(new Set(events.map(({ fields }) => fields.key)), new Set([`lock:${name}`]));
    redlock.close();
  });
});

test("warnings are not process warnings while a listener receives them", async (context) => {
  const emitted = context.mock.method(process, "emitWarning", () => undefined);
  const texts = () => emitted.mock.calls.map(({ arguments: [warning] }) => String(warning));
  const lose = async () => {
    const [redlock, name] = [client(), uniqueName()];
    await redlock.lock(name).acquire();
    redlock.close();
    return name;
  };
  const { stop, kinds } = collect("lock:", { level: "warn" });
  await lose();
  await eventually(() => assert.deepEqual(kinds(), ["lease lost"]));
  stop();
  const errors = collect("lock:", { level: "error" });
  const name = await lose();
  await eventually(() => assert.equal(texts().length, 1));
  assert.ok(texts()[0].includes(`key=lock:${name} `), texts()[0]);
  assert.deepEqual(errors.kinds(), []);
  errors.stop();
});

test("events that find no room are counted", async () => {
  const [redlock, name] = [client(), uniqueName()];
  const { events, stop, kinds } = collect("");
  const names = Array.from({ length: 12_000 }, (_, at) => `${name}-${at}`);
  await Promise.all(names.map((each) => redlock.lock(each, { ttl: 60_000 }).acquire()));
  const granted = () => kinds().filter((kind) => kind === "granted").length;
  const dropped = () =>
    events.reduce(
      (sum, { fields }) => sum + (fields.dropped === undefined ? 0 : fields.dropped),
      0,
    );
  // The count comes with the next event.
  await eventually(async () => {
    await redlock.using(`${name}-last`, () => undefined);
    assert.ok(events.some(({ fields }) => fields.key === `lock:${name}-last`));
  });
  stop();
  assert.ok(dropped() > 0, "none was dropped");
  const ours = events.filter(({ fields }) => String(fields.key).includes(`${name}-`));
  assert.ok(ours.length >= granted());
  const report = events.find(({ fields }) => fields.dropped !== undefined);
  assert.deepEqual([report.level, report.logger], ["warn", "redlock.client"]);
  assert.ok(report.message.startsWith(`${report.fields.dropped} log events were dropped`));
  redlock.close();
});

test("a listener that throws or rejects ends neither the process nor a lease", async () => {
  const { code, stderr, lines } = await program("throwing-log");
  assert.equal(code, 0, stderr);
  assert.deepEqual(lines, ["held", "others: granted, released"]);
  const warnings = stderr.split("\n").filter((line) => line.includes("RedlockWarning"));
  for (const text of ["Error: theirs", "Error: later", "{ plain: 1 }"]) {
    const about = warnings.filter((line) => line.includes(`a listener of onLog() threw ${text}`));
    // One within a second for each listener.
    assert.ok(about.length >= 1, stderr);
  }
  assert.ok(!stderr.includes("uncaught"), stderr);
});

test("a listener does not keep the process alive, and receives the last events at its end", async () => {
  for (const end of ["returns", "exits"]) {
    const { code, stderr, lines } = await program("logged-end", [end], { timeout: 10_000 });
    assert.equal(code, 0, stderr);
    assert.deepEqual(lines, ["granted", "released"], end);
  }
});

test("a worker's listener receives the events of the process", async () => {
  const name = uniqueName();
  const url = `memory://${uniqueName()}`;
  const worker = new Worker(new URL("programs/logging-worker.mjs", import.meta.url), {
    workerData: { url, name },
  });
  const messages = [];
  worker.on("message", (message) => messages.push(message));
  await eventually(() => assert.deepEqual(messages, ["ready"]));
  await new Redlock(url).using(name, () => undefined);
  await once(worker, "exit");
  assert.deepEqual(messages, ["ready", "granted", "released"]);
});
