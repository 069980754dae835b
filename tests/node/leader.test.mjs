// `leader` in Node.js: every way to lead, losses and mistakes. `conformance/test_leader.py` has the guarantees.
import assert from "node:assert/strict";
import { inspect } from "node:util";
import { configure, Leader, LockLost, leader, Redlock } from "redlock-native";
import { TestRedlock } from "redlock-native/testing";
import { serverForSuite, uniqueName, waiting } from "./helper.mjs";
import { test } from "./testing.mjs";

const shared = serverForSuite();

test("a client without labels names its leader", async () => {
  const candidate = new Redlock("memory://", { label: false }).leader("job");
  assert.ok(await candidate.run(() => candidate.current()));
});

test("a loss aborts the signal, and the next campaign begins when the body has settled", async () => {
  const client = new TestRedlock();
  const candidate = client.leader("job");
  let [bodies, terms] = [0, 0];
  const result = await candidate.run(async ({ signal }) => {
    bodies += 1;
    terms += 1;
    assert.equal(bodies, 1);
    try {
      if (terms === 4) return "done";
      const aborted = new Promise((resolve) => signal.addEventListener("abort", resolve));
      await client.lose("job");
      await aborted;
      assert.equal(candidate.isLeading, false);
      for (let turn = 0; turn < 10; turn += 1) await new Promise(setImmediate);
      // The body fails with the loss, fails with its own AbortError, or returns.
      if (terms === 1) signal.throwIfAborted();
      if (terms === 2) throw new DOMException("aborted", "AbortError");
      return "dropped";
    } finally {
      bodies -= 1;
    }
  });
  assert.deepEqual([result, terms], ["done", 4]);
});

test("an error after a loss, and the loss of another lock, are errors of the body", async () => {
  const client = new TestRedlock();
  const failure = new Error("failed");
  const failed = client.leader("job").run(async () => {
    await client.lose("job");
    throw failure;
  });
  await assert.rejects(failed, failure);
  const other = client.leader("job").run(() =>
    client.using("other", async () => {
      await client.lose("other");
    }),
  );
  await assert.rejects(
    other,
    (error) => error instanceof LockLost && error.resource !== "lock:job",
  );
});

test("a loss of an equal key or of an earlier term, and a use after a release, are errors of the body", async () => {
  const [client, other] = [new TestRedlock(), new TestRedlock()];
  let terms = 0;
  const elsewhere = client.leader("job").run(() => {
    terms += 1;
    assert.equal(terms, 1);
    return other.using("job", () => other.lose("job"));
  });
  await assert.rejects(elsewhere, { kind: "lost" });
  let first;
  const earlier = client.leader("job").run(async (lease) => {
    terms += 1;
    if (first === undefined) await client.lose("job");
    first ??= lease;
    first.ensureHeld();
  });
  await assert.rejects(earlier, { kind: "lost" });
  assert.equal(terms, 3);
  const released = client.leader("job").run(async (lease) => {
    terms += 1;
    assert.equal(terms, 4);
    await lease.release();
    lease.ensureHeld();
  });
  await assert.rejects(released, { kind: "released" });
});

test("a loss that only the release notices is followed by a campaign", async () => {
  const client = new Redlock(shared.server.url);
  const candidate = client.leader(uniqueName());
  let terms = 0;
  const result = await candidate.run(async () => {
    terms += 1;
    if (terms === 1) await shared.server.cli("DEL", candidate.key);
    return terms;
  });
  assert.equal(result, 2);
});

test("a signal ends a campaign, and is passed to the body", async () => {
  const client = new TestRedlock();
  const reason = new Error("stopped");
  const [campaigns, leads] = [new AbortController(), new AbortController()];
  const first = client.leader("job").run({ signal: leads.signal }, async (lease) => {
    const waits = client.leader("job").run({ signal: campaigns.signal }, assert.fail);
    await waiting(client, 1);
    campaigns.abort(reason);
    await assert.rejects(waits, reason);
    assert.equal(client.stats().waiting, 0);
    leads.abort(reason);
    assert.equal(lease.signal.reason, reason);
    return lease.held;
  });
  // The body decides what the signal means.
  assert.equal(await first, true);
  await assert.rejects(client.leader("job").run({ signal: leads.signal }, assert.fail), reason);
  // A signal also ends the run of a body that lost its lease.
  const both = new AbortController();
  const lost = client.leader("job").run({ signal: both.signal }, async () => {
    await client.lose("job");
    both.abort(reason);
  });
  await assert.rejects(lost, reason);
});

test("a term without a body ends with its lease", async () => {
  const client = new TestRedlock();
  const candidate = client.leader("job", { fencing: true });
  const term = await candidate.campaign();
  assert.deepEqual([candidate.isLeading, term.fencingToken > 0], [true, true]);
  await term[Symbol.asyncDispose]();
  assert.deepEqual([candidate.isLeading, await candidate.current()], [false, null]);
  const reason = new Error("stopped");
  await assert.rejects(candidate.campaign({ signal: AbortSignal.abort(reason) }), reason);
});

test("the default client has a leader", async () => {
  configure(["memory://leader-default"], { replace: true });
  assert.equal(await leader("job").run((lease) => lease.held), true);
});

test("a candidate shows its name and options, and no client", () => {
  const candidate = new Redlock("memory://").leader("job", { ttl: 5_000, label: "web-3" });
  const shown = { names: ["job"], key: "lock:job", options: { ttl: 5_000, label: "web-3" } };
  assert.deepEqual(candidate.toJSON(), shown);
  assert.match(inspect(candidate), /^Leader \{/);
});

test("mistakes are explained", async () => {
  const client = new Redlock("memory://");
  for (const [options, message] of [
    [5_000, /To set ttl in milliseconds/],
    [{ label: false }, /label of a leader must not be off/],
    [{ wait: 5_000 }, /leader\(\): unknown option wait/],
    [{ renew: false }, /leader\(\): unknown option renew/],
    [{ minHold: 1_000 }, /leader\(\): unknown option minHold/],
    [{ leads: true }, /leader\(\): unknown option leads/],
  ]) {
    assert.throws(() => client.leader("job", options), { kind: "invalid", message });
  }
  assert.throws(() => client.lock("job", { leads: true }), { kind: "invalid" });
  assert.throws(() => new Leader(), { message: /client\.leader/ });
  const candidate = client.leader("job");
  await assert.rejects(candidate.run(), { kind: "invalid", message: /function to run/ });
  await assert.rejects(
    candidate.run.call({}, () => 7),
    { message: /Leader/ },
  );
  await assert.rejects(candidate.current({ signal: AbortSignal.abort() }), /does not accept/);
  assert.throws(() => structuredClone(candidate), /Create a new one there/);
});
