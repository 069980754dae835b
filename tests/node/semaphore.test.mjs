// Semaphores in Node.js: every way to use a lock, options and mistakes. `conformance/test_semaphore.py` has the rest.
import assert from "node:assert/strict";
import { configure, Redlock, semaphore } from "redlock-native";
import { TestRedlock } from "redlock-native/testing";
import { serverForSuite, uniqueName } from "./helper.mjs";
import { test } from "./testing.mjs";

const shared = serverForSuite();
const keysOf = (name, limit) => Array.from({ length: limit }, (_, at) => `{lock:${name}}#${at}`);

test("scopes share the permits", async () => {
  const client = new Redlock(shared.server.url);
  const name = uniqueName();
  const pool = client.semaphore(name, { limit: 2, ttl: 20_000, wait: 0 });
  assert.deepEqual([pool.key, pool.keys], [`lock:${name}`, keysOf(name, 2)]);
  const last = await pool.using(async (one) => {
    const two = await pool.acquire();
    assert.deepEqual([...one.keys, ...two.keys].sort(), keysOf(name, 2));
    assert.equal(two.key, pool.key);
    assert.equal(await pool.tryAcquire(), null);
    return two;
  });
  await last.release();
  assert.equal(last.keys.length, 1, "after the release");
  assert.equal((await pool.inspect()).taken, 0);
});

test("leases() knows the keys of permits", async () => {
  const client = new Redlock(shared.server.url);
  const lease = await client.semaphore(uniqueName(), { limit: 5, permits: 3 }).acquire();
  assert.equal(lease.keys.length, 3);
  const found = client.leases();
  assert.equal(found[0], lease);
  await lease.extend(20_000);
  await lease.release();
});

test("the default client has semaphores", async () => {
  configure("memory://", { replace: true });
  const pool = semaphore("pool", { limit: 1, wait: 0 });
  await pool.using(async (lease) => {
    assert.deepEqual(lease.keys, ["{lock:pool}#0"]);
    assert.equal(await semaphore("pool", { limit: 1 }).tryAcquire(), null);
  });
});

test("an aborted wait leaves no permit", async () => {
  const client = new Redlock(shared.server.url);
  const pool = client.semaphore(uniqueName(), { limit: 1 });
  const held = await pool.acquire();
  const stop = new AbortController();
  const waiting = pool.acquire({ signal: stop.signal });
  stop.abort(new Error("enough"));
  await assert.rejects(waiting, /enough/);
  await held.release();
  assert.ok(await pool.tryAcquire());
});

test("test clients accept a semaphore", async () => {
  const redlock = new TestRedlock();
  const pool = redlock.semaphore("pool", { limit: 2, ttl: 60_000 });
  const theirs = await redlock.hold(pool);
  assert.equal(theirs.ttl, 60_000);
  const ours = await pool.acquire();
  ours.onLost(() => {});
  assert.equal(await pool.tryAcquire(), null);
  assert.equal(await redlock.lose(pool), true);
  assert.equal(ours.held, false);
  assert.equal(await redlock.forceRelease(pool), false);
  assert.equal(await redlock.forceRelease(redlock.lock("job")), false);
  await redlock.shutdown(0);
});

test("options of the same values share a set, others do not", async () => {
  const client = new Redlock("memory://");
  const one = client.semaphore("pool", { limit: 1 });
  const two = client.semaphore("pool", { limit: 2, permits: 2 });
  assert.equal((await one.acquire()).keys.length, 1);
  assert.deepEqual([one.keys.length, two.keys.length], [1, 2]);
  assert.deepEqual(JSON.parse(JSON.stringify(two)).options, { limit: 2, permits: 2 });
});

test("mistakes are refused immediately", () => {
  const client = new Redlock("memory://");
  for (const [call, text] of [
    [() => client.semaphore("pool"), "limit is missing"],
    [() => client.semaphore("pool", {}), "limit is missing"],
    [() => client.semaphore("pool", 5), "To set limit, pass { limit: 5 }"],
    [
      () => client.semaphore("pool", { limit: -1 }),
      "limit must be a whole number, 1 or more (got -1)",
    ],
    [() => client.semaphore("pool", { limit: 1.5 }), "limit must be a whole number"],
    [() => client.semaphore("pool", { limit: 2, fencing: true }), "unknown option fencing"],
    [() => client.lock("job", { limit: 2 }), "limit is an option of the semaphore"],
    [() => semaphore("pool", { maxCount: 2 }), "Use semaphore() with limit"],
  ]) {
    assert.throws(call, (error) => error.kind === "invalid" && error.message.includes(text), text);
  }
});
