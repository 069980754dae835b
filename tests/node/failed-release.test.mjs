// A release that fails ends the lease in this process, as a successful one does, and does not hide a loss.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { onWarning } from "redlock-native";
import { TestRedlock } from "redlock-native/testing";
import { eventually, uniqueName } from "./helper.mjs";
import { after, before, test } from "./testing.mjs";

const require = createRequire(import.meta.url);
// The package does not export the numbers of leases, so the built modules are loaded directly.
const built = require("../../bindings-node/dist/client/client.js");
const { native } = require("../../bindings-node/dist/runtime/runtime.js");

const heard = [];
before(() => onWarning(({ message }) => heard.push(message)));
after(() => onWarning(null));

/** Number of warnings about the loss of this key. */
const warnings = (key) =>
  heard.filter((message) => message.startsWith(`lease lost key=${key} `)).length;

/** Resolves when a loss after this call has been warned of. Warnings about earlier losses come first. */
async function laterWarning() {
  const redlock = new TestRedlock();
  const { key } = await redlock.lock(uniqueName("later")).acquire();
  redlock.close();
  await eventually(() => assert.equal(warnings(key), 1));
}

test("a release that no quorum confirms ends the lease and its listeners", async () => {
  const redlock = new TestRedlock();
  const name = uniqueName();
  const lease = await redlock.lock(name, { fencing: true }).acquire();
  const lost = [];
  lease.onLost((error) => lost.push(error));
  redlock.fail();
  await assert.rejects(lease.release(), { kind: "unavailable" });
  redlock.recover();
  assert.equal(lease.held, false);
  assert.match(lease.token, /^[0-9a-f]{32}$/);
  assert.ok(lease.fencingToken > 0);
  assert.throws(() => lease.ensureHeld(), { name: "LockReleased" });
  await redlock.forceRelease(name);
  const next = await redlock.lock(name).acquire();
  redlock.close();
  await laterWarning();
  // The listener of the released lease does not report this loss.
  assert.equal(warnings(next.key), 1);
  assert.deepEqual(lost, []);
  await lease.release();
});

test("a release after a loss reports the loss once to the listeners and again to the caller", async () => {
  const redlock = new TestRedlock();
  const lease = await redlock.lock(uniqueName()).acquire();
  const lost = [];
  lease.onLost(({ reason }) => lost.push(reason));
  const { signal } = lease;
  redlock.close();
  const loss = { kind: "lost", reason: "closed" };
  await assert.rejects(lease.release(), loss);
  await laterWarning();
  assert.deepEqual([lost, signal.aborted], [["closed"], true]);
  assert.throws(() => lease.ensureHeld(), loss);
  await assert.rejects(lease.release(), loss);
  await assert.rejects(lease.extend(), loss);
  assert.equal(warnings(lease.key), 0);
});

test("a listener that is added after a failed release gets the loss", async () => {
  const redlock = new TestRedlock();
  const lease = await redlock.lock(uniqueName()).acquire();
  redlock.close();
  await assert.rejects(lease.release(), { reason: "closed" });
  assert.equal(lease.signal.aborted, true);
  const error = await new Promise((resolve) => lease.onLost(resolve));
  assert.equal(error.reason, "closed");
});

test("a failed release removes the lease from the native part", async () => {
  const redlock = new built.Redlock(`memory://${uniqueName()}`);
  const number = 1_000_000;
  native().__setLastNumberForTests(number);
  const lease = await redlock.lock(uniqueName()).acquire();
  const keys = () => native().leaseKeys(number + 1);
  assert.deepEqual(keys(), [lease.key]);
  redlock.close();
  await assert.rejects(lease.release(), { kind: "lost" });
  assert.equal(keys(), null);
  assert.equal(lease.held, false);
});

test("a body that fails does not hide a release that no quorum confirms", async () => {
  const redlock = new TestRedlock();
  const name = uniqueName();
  const failure = new Error("failed");
  const failed = redlock.using(name, () => {
    redlock.fail();
    throw failure;
  });
  await assert.rejects(failed, failure);
  const start = `not released: lock:${name}: release not confirmed`;
  assert.equal(heard.filter((message) => message.startsWith(start)).length, 1);
});
