// Twenty thousand leases at once: operations on all of them take proportional time.
import assert from "node:assert/strict";
import { Redlock } from "redlock-native";
import { uniqueName } from "./helper.mjs";
import { slow, test } from "./testing.mjs";

const MANY = 20_000;
/** Unreferenced leases would be collected, and their locks would be given up. */
const kept = [];

async function holding(count) {
  const redlock = new Redlock(`memory://${uniqueName()}`);
  const names = Array.from({ length: count }, () => uniqueName());
  const acquiring = names.map((name) => redlock.lock(name, { ttl: 600_000 }).acquire());
  kept.push(await Promise.all(acquiring));
  return redlock;
}

/** The least of several runs, because other load affects only some. */
function milliseconds(redlock, count) {
  const times = Array.from({ length: 5 }, () => {
    const started = performance.now();
    assert.equal(redlock.leases().length, count);
    return performance.now() - started;
  });
  return Math.min(...times);
}

slow("it compares durations", "leases() takes linear time", async () => {
  const [few, many] = [await holding(MANY / 4), await holding(MANY)];
  const [short, long] = [milliseconds(few, MANY / 4), milliseconds(many, MANY)];
  assert.ok(long < 1000, `${long} ms for ${MANY}`);
  assert.ok(long < 10 * short + 20, `${long} ms for ${MANY}, ${short} ms for a quarter`);
  const names = new Set(many.leases().map((lease) => lease.key));
  assert.equal(names.size, MANY);
  for (const redlock of [few, many]) redlock.close();
});

test("two leases with the same token have separate objects", async () => {
  const redlock = new Redlock(`memory://${uniqueName()}`);
  const name = uniqueName();
  const first = await redlock.lock(name).acquire();
  const second = await redlock.attach(name, first.token);
  assert.equal(redlock.leases().length, 2);
  second.detach();
  const [left] = redlock.leases();
  assert.equal(redlock.leases().length, 1);
  await left.release();
  assert.equal(first.held, false);
});
