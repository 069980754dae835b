// `once` in Node.js: every way to run a function, failures and mistakes. `rust/once.rs` has the guarantees.
import assert from "node:assert/strict";
import { inspect } from "node:util";
import { configure, Once, once, onWarning, Redlock } from "redlock-native";
import { TestRedlock } from "redlock-native/testing";
import { serverForSuite, uniqueName } from "./helper.mjs";
import { test } from "./testing.mjs";

const shared = serverForSuite();
const remember = 86_400_000;
const skipped = { ran: false, value: undefined };

test("a success is remembered", async () => {
  const [one, two] = [new Redlock(shared.server.url), new Redlock(shared.server.url)];
  const name = uniqueName();
  const result = await one.once(name, { remember }).run(async (lease) => lease.held);
  assert.deepEqual(result, { ran: true, value: true });
  for (const client of [one, two]) {
    assert.deepEqual(await client.once(name, { remember, ttl: 20_000 }).run(() => 7), skipped);
  }
  const { held, remaining, nodes } = await two.lock(name).inspect();
  assert.deepEqual([held, nodes[0].state], [false, "kept"]);
  assert.ok(remaining > 80_000_000, `${remaining}`);
  assert.equal(await two.forceRelease(name), true);
  assert.equal((await two.once(name, { remember }).run(() => 7)).value, 7);
});

test("a failure leaves no memory", async () => {
  const client = new Redlock(shared.server.url);
  const name = uniqueName();
  const run = (body) => client.once(name, { remember }).run(body);
  const failure = new Error("failed");
  const free = async () => (await client.lock(name).inspect()).nodes[0].state;
  await assert.rejects(
    run(() => Promise.reject(failure)),
    failure,
  );
  assert.equal(await free(), "free");
  await assert.rejects(
    run(() => {
      throw failure;
    }),
    failure,
  );
  assert.equal(await free(), "free");
  // A body that releases its lease has no memory either, because others could run it since.
  assert.equal((await run((lease) => lease.release())).ran, true);
  assert.equal(await free(), "free");
  const lost = run(() => client.releaseAll());
  await assert.rejects(lost, { kind: "lost", reason: "revoked" });
  assert.equal((await run(() => 7)).ran, true);
});

test("a concurrent run is refused, or waits", async () => {
  const [one, two] = [new Redlock(shared.server.url), new Redlock(shared.server.url)];
  for (const succeeds of [false, true]) {
    const name = uniqueName();
    let end;
    let first;
    await new Promise((begun) => {
      const body = () => {
        begun();
        return new Promise((resolve, reject) => {
          end = succeeds ? resolve : () => reject(new Error("failed"));
        });
      };
      first = one.once(name, { remember, label: "first" }).run(body);
    });
    await assert.rejects(two.once(name, { remember }).run(assert.fail), {
      kind: "timeout",
      message: /held by first/,
    });
    const waiting = [
      two.once(name, { remember, wait: 60_000 }).run(() => 7),
      two.once(name, { remember }).run({ wait: 60_000 }, () => 7),
    ];
    while (two.stats().waiting < 2) await new Promise(setImmediate);
    end();
    await first.catch(() => undefined);
    const ran = (await Promise.all(waiting)).filter((result) => result.ran);
    assert.equal(ran.length, succeeds ? 0 : 1);
  }
});

test("a signal ends the wait, and is passed to the body", async () => {
  const client = new Redlock("memory://once-signal");
  const reason = new Error("stopped");
  const controller = new AbortController();
  const run = client.once("payment", { remember }).run({ signal: controller.signal }, (lease) => {
    controller.abort(reason);
    return Promise.reject(lease.signal.reason);
  });
  await assert.rejects(run, reason);
  const aborted = client
    .once("payment", { remember })
    .run({ signal: controller.signal }, assert.fail);
  await assert.rejects(aborted, reason);
  assert.equal((await client.once("payment", { remember }).run(() => 7)).ran, true);
});

test("the memory counts from the start, and ends", async () => {
  const client = new TestRedlock();
  const payment = client.once("payment", { remember: 100_000, ttl: 10_000 });
  assert.equal((await payment.run(() => client.advance(5_000))).ran, true);
  await client.advance(90_000);
  assert.deepEqual(await payment.run(assert.fail), skipped);
  await client.advance(10_000);
  assert.equal((await payment.run(() => 7)).ran, true);
});

test("a warning tells how long a key stays whose release no quorum confirms", async () => {
  const heard = [];
  onWarning(({ message }) => heard.push(message));
  const whileFailing = async (scope) => {
    const client = new TestRedlock();
    await scope(client, () => client.fail());
    client.close();
  };
  try {
    await whileFailing((client, fail) => client.once("job", { remember }).run(fail));
    await whileFailing((client, fail) => client.using("job", { minHold: remember }, fail));
    await whileFailing((client, fail) => client.using("job", fail));
  } finally {
    onWarning(null);
  }
  const texts = heard.filter((text) => text.startsWith("not released: "));
  const stays = texts.map((text) => /lock:job: release not confirmed, so (.*?)\. /.exec(text)?.[1]);
  assert.deepEqual(stays, [
    "each node keeps the key until its TTL or remember ends",
    "each node keeps the key until its TTL or minHold ends",
    "the key expires when its TTL ends",
  ]);
});

test("the default client has once", async () => {
  configure(["memory://once-default"], { replace: true });
  assert.equal((await once("payment", { remember }).run(() => 7)).value, 7);
  assert.deepEqual(await once("payment", { remember }).run(assert.fail), skipped);
});

test("a run shows its name and options, and no client", () => {
  const payment = new Redlock("memory://").once("payment", { remember, label: "web-3" });
  assert.equal(payment.key, "lock:payment");
  const shown = { names: ["payment"], key: "lock:payment", options: { remember, label: "web-3" } };
  assert.deepEqual(payment.toJSON(), shown);
  assert.match(inspect(payment), /^Once \{/);
});

test("mistakes are explained", async () => {
  const client = new Redlock("memory://");
  for (const [options, message] of [
    [undefined, /remember is missing/],
    [{}, /remember is missing/],
    [5_000, /To set remember in milliseconds/],
    [{ remember: 0 }, /remember must be above 0/],
    [{ remember: -1 }, /remember must be/],
    [{ remember: 4_000 * remember }, /remember must be at most ten years/],
    [{ remember: 1_000, minHold: 1_000 }, /minHold/],
    [{ remember: 1_000, ttl: 5 }, /ttl must be at least/],
  ]) {
    assert.throws(() => client.once("payment", options), { kind: "invalid", message });
  }
  assert.throws(() => client.once(["a", "b"], { remember }), { message: /one name/ });
  assert.throws(() => client.lock("payment", { remember }), { message: /run of once/ });
  assert.throws(() => new Once(), { message: /client\.once/ });
  const payment = client.once("payment", { remember });
  await assert.rejects(payment.run(), { kind: "invalid", message: /function to run/ });
  await assert.rejects(
    payment.run.call({}, () => 7),
    { message: /Once/ },
  );
  assert.throws(() => structuredClone(payment), /Create a new one there/);
});
