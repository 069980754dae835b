// Read/write locks in Node.js: every way to use a side, options and mistakes. `conformance/test_rwlock.py` has the rest.
import assert from "node:assert/strict";
import { inspect } from "node:util";
import { configure, Redlock, RwLock, rwlock } from "redlock-native";
import { TestRedlock } from "redlock-native/testing";
import { serverForSuite, uniqueName } from "./helper.mjs";
import { test } from "./testing.mjs";

const shared = serverForSuite();

test("scopes share the lock", async () => {
  const client = new Redlock(shared.server.url);
  const name = uniqueName();
  const config = client.rwlock(name);
  assert.equal(config.name, name);
  const reader = config.read({ ttl: 20_000 });
  await reader.using(async (one) => {
    const two = await config.read().acquire();
    assert.deepEqual([one.key, two.keys], [`lock:${name}`, [`lock:${name}`]]);
    assert.equal(await config.write().tryAcquire(), null);
    assert.equal((await reader.inspect()).nodes[0].token, undefined);
    await two.release();
  });
  await config.write({ ttl: 20_000, fencing: true }).using(async (lease) => {
    assert.ok(lease.fencingToken > 0);
  });
  assert.equal((await reader.inspect()).mode, undefined);
});

test("the default client has read/write locks", async () => {
  configure("memory://", { replace: true });
  await rwlock("config")
    .read()
    .using(async (lease) => {
      assert.equal(lease.key, "lock:config");
      assert.equal(await rwlock("config").write().tryAcquire(), null);
    });
});

test("an aborted wait leaves nothing", async () => {
  const client = new Redlock(shared.server.url);
  const config = client.rwlock(uniqueName());
  const held = await config.write().acquire();
  const stop = new AbortController();
  const waiting = config.read().acquire({ signal: stop.signal });
  stop.abort(new Error("enough"));
  await assert.rejects(waiting, /enough/);
  await held.release();
  // Waiting readers come before the next writer for a moment, also aborted ones.
  assert.ok(await config.write({ wait: 10_000 }).acquire());
});

test("test clients accept a side", async () => {
  const redlock = new TestRedlock();
  const config = redlock.rwlock("config");
  const theirs = await redlock.hold(config.read({ ttl: 60_000 }));
  assert.equal(theirs.ttl, 60_000);
  const ours = await config.read().acquire();
  ours.onLost(() => {});
  assert.equal(await config.write().tryAcquire(), null);
  assert.equal(await redlock.lose(config.read()), true);
  assert.equal(ours.held, false);
  await redlock.hold(config.write());
  assert.equal(await config.read().tryAcquire(), null);
  assert.equal(await redlock.forceRelease("config"), true);
  await redlock.shutdown(0);
});

test("sides of the same options are different locks", async () => {
  const client = new Redlock("memory://");
  const config = client.rwlock("sides");
  const [read, write] = [config.read({ ttl: 5_000 }), config.write({ ttl: 5_000 })];
  const plain = client.lock("sides", { ttl: 5_000 });
  const leases = [await read.acquire(), await read.acquire()];
  assert.deepEqual([await write.tryAcquire(), await plain.tryAcquire()], [null, null]);
  for (const lease of leases) await lease.release();
  const lease = await plain.acquire();
  assert.deepEqual([await write.tryAcquire(), await read.tryAcquire()], [null, null]);
  await lease.release();
  assert.deepEqual(JSON.parse(JSON.stringify(read)).options, { ttl: 5_000, shared: true });
  assert.equal(JSON.stringify(config), '{"name":"sides"}');
  assert.equal(inspect(config), "RwLock { name: 'sides' }");
  assert.equal(JSON.stringify(new Proxy(config, {})), "{}");
});

test("the default TTL of the sides does not matter for the name", async () => {
  const client = new Redlock(["memory://a", "memory://b"], {
    restartGuard: 5_000,
    nodeTimeout: 2_000,
  });
  const config = client.rwlock("config");
  assert.throws(() => config.read(), /restartGuard/);
  assert.equal(config.write({ ttl: 3_000 }).key, "lock:config");
});

test("mistakes are refused immediately", async () => {
  const client = new Redlock("memory://");
  const config = client.rwlock("config");
  for (const [call, text] of [
    [() => client.rwlock(""), "a name is empty"],
    [() => client.rwlock("a", { ttl: 5_000 }), "rwlock() has no options, its sides have"],
    [() => rwlock("a", { ttl: 5_000 }), "rwlock() has no options, its sides have"],
    [() => config.read({ fencing: true }), "read(): unknown option fencing"],
    [() => config.read({ minHold: 5 }), "minHold is an option of the lock"],
    [() => config.read(5_000), "To set ttl in milliseconds, pass { ttl: 5000 }"],
    [() => config.write({ permits: 1 }), "permits is an option of the semaphore"],
    [() => client.lock("job", { shared: true }), "Use rwlock(), whose read() and write()"],
    [() => config.acquire(), "a read/write lock has no acquire(), because it has two sides"],
    [() => config.tryAcquire(), "Call rwlock.read().tryAcquire()"],
    [() => config.using(), "has no using()"],
    [() => config.inspect(), "has no inspect()"],
    [() => new RwLock("a"), "client.rwlock(name)"],
    [() => config.read.call({}), "RwLock"],
  ]) {
    assert.throws(call, (error) => error.kind === "invalid" && error.message.includes(text), text);
  }
});
