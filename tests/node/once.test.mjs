// `once` in Node.js: every way to run a function, failures and mistakes. `conformance/test_once.py` has the guarantees.
import assert from "node:assert/strict";
import { inspect } from "node:util";
import { configure, Once, once, onWarning, Redlock } from "redlock-native";
import { TestRedlock } from "redlock-native/testing";
import { test } from "./testing.mjs";

const remember = 86_400_000;
const skipped = { ran: false, value: undefined };

test("a run passes the lease and returns the value", async () => {
  const payment = new Redlock("memory://").once("payment", { remember });
  assert.deepEqual(await payment.run(async (lease) => lease.held), { ran: true, value: true });
  assert.deepEqual(await payment.run({ wait: 0 }, () => 7), skipped);
});

test("a failure leaves no memory", async () => {
  const client = new Redlock("memory://");
  const run = (body) => client.once("payment", { remember }).run(body);
  const failure = new Error("failed");
  const free = async () => (await client.lock("payment").inspect()).nodes[0].state;
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
    [{ remember: -1 }, /remember must be/],
    [{ remember: 1_000, minHold: 1_000 }, /minHold/],
  ]) {
    assert.throws(() => client.once("payment", options), { kind: "invalid", message });
  }
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
