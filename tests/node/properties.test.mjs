// The properties of a lock and a lease: names, keys, TTL.
import assert from "node:assert/strict";
import { configure, lock, Redlock } from "redlock-native";
import { block, uniqueName } from "./helper.mjs";
import { test } from "./testing.mjs";

const redlock = new Redlock("memory://", { keyPrefix: "p:" });

test("a lock returns its names as they were passed", () => {
  const [a, b] = [uniqueName(), uniqueName()];
  const both = redlock.lock([b, a]);
  assert.deepEqual(
    [both.names, both.keys],
    [
      [b, a],
      [`p:${b}`, `p:${a}`],
    ],
  );
  assert.deepEqual(redlock.lock(a).names, [a]);
  both.names.push("another");
  assert.deepEqual(both.names, [b, a], "a copy");
  assert.throws(() => (both.names = []), TypeError);
});

test("a lock of the default client has names before the client exists", () => {
  const described = lock(["a", "b"]);
  assert.deepEqual(described.names, ["a", "b"]);
  // The default client was not used by that.
  configure("memory://", { keyPrefix: "q:" });
  assert.deepEqual(described.keys, ["q:a", "q:b"]);
});

test("a lease returns its keys while it is held and afterwards", async () => {
  const [a, b] = [uniqueName(), uniqueName()];
  for (const names of [a, [a, b]]) {
    const described = redlock.lock(names);
    const lease = await described.acquire();
    assert.deepEqual(lease.keys, described.keys);
    assert.deepEqual(redlock.leases()[0].keys, described.keys);
    lease.keys.push("another");
    await lease.release();
    assert.deepEqual(lease.keys, described.keys);
    assert.throws(() => (lease.keys = []), TypeError);
  }
});

test("a lease returns its ttl in milliseconds, including after extend", async () => {
  const plain = await redlock.lock(uniqueName()).acquire();
  assert.equal(plain.ttl, 10_000);
  await plain.release();
  const name = uniqueName();
  const lease = await redlock.lock(name, { ttl: 11_113 }).acquire();
  assert.equal(lease.ttl, 11_113);
  const [listed] = redlock.leases();
  const attached = await redlock.attach(name, lease.token, { ttl: 7000 });
  assert.deepEqual([listed.ttl, attached.ttl], [11_113, 7000]);
  attached.detach();
  await lease.extend(20_000);
  assert.deepEqual([lease.ttl, listed.ttl], [20_000, 20_000]);
  await lease.extend();
  assert.equal(lease.ttl, 20_000);
  await lease.release();
  assert.deepEqual([lease.ttl, attached.ttl, plain.ttl], [20_000, 7000, 10_000]);
  assert.throws(() => (lease.ttl = 1), TypeError);
});

test("a lost lease still returns its keys and its ttl", async () => {
  const described = redlock.lock(uniqueName(), { ttl: 100, renew: false });
  const lease = await described.acquire();
  block(150);
  assert.equal(lease.held, false);
  assert.deepEqual([lease.keys, lease.ttl], [described.keys, 100]);
  await assert.rejects(lease.release(), { kind: "lost" });
  assert.deepEqual([lease.keys, lease.ttl], [described.keys, 100]);
});
