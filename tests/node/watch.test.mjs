// Who is told of a loss: every object of the lease, once; nobody after a release.
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { Redlock } from "redlock-native";
import { fresh } from "./helper.mjs";
import { test } from "./testing.mjs";

async function twoObjects() {
  const redlock = new Redlock(`memory://${fresh()}`);
  const name = fresh();
  const lease = await redlock.lock(name, { fencing: true }).acquire();
  const [other] = redlock.leases();
  assert.notEqual(other, lease);
  return { redlock, name, lease, other };
}

test("two objects for one lease are both told of its loss", async () => {
  const { redlock, name, lease, other } = await twoObjects();
  assert.equal(other.fencingToken, lease.fencingToken);
  const told = [];
  lease.onLost((error) => told.push(["lease", error.code]));
  other.onLost((error) => told.push(["other", error.code]));
  // Waiting for a loss keeps no process alive: the test does.
  const aborted = new AbortController();
  other.signal.addEventListener("abort", () => aborted.abort());
  await redlock.forceRelease(name);
  await sleep(5000, undefined, aborted).catch(() => undefined);
  assert.deepEqual(told, [
    ["lease", "lost"],
    ["other", "lost"],
  ]);
  assert.deepEqual([lease.signal.aborted, other.signal.aborted], [true, true]);
});

test("a release through either object is no loss for the other", async () => {
  const { redlock, lease, other } = await twoObjects();
  const told = [];
  lease.onLost((error) => told.push(error));
  const { signal } = other;
  await other.release();
  redlock.close();
  await sleep(50);
  assert.deepEqual([told, signal.aborted, lease.signal.aborted], [[], false, false]);
});
