// Many callers at once, and a thread that is blocked while its calls complete.
import assert from "node:assert/strict";
import { setImmediate as immediate } from "node:timers/promises";
import { Redlock } from "redlock-native";
import { block, serverForSuite, uniqueName } from "./helper.mjs";
import { test } from "./testing.mjs";

const shared = serverForSuite();

test("many callers with different names all acquire and release", async () => {
  const redlock = new Redlock(shared.server.url);
  const locks = Array.from({ length: 64 }, () => redlock.lock(uniqueName("many")));
  const rounds = async (lock) => {
    for (let round = 0; round < 20; round++) {
      const lease = await lock.acquire();
      assert.equal(lease.held, true);
      await lease.release();
    }
  };
  await Promise.all(locks.map(rounds));
  assert.equal(await shared.server.cli("KEYS", "lock:many*"), "");
  assert.deepEqual(redlock.leases(), []);
});

test("more calls and outcomes than fit into one batch all arrive", async () => {
  const redlock = new Redlock("memory://");
  const names = Array.from({ length: 2000 }, () => uniqueName("crowd"));
  const leases = await Promise.all(names.map((name) => redlock.lock(name).acquire()));
  assert.equal(new Set(leases.map(({ token }) => token)).size, 2000);
  for (const { token } of leases) assert.match(token, /^[0-9a-f]{32}$/);
  assert.equal(redlock.leases().length, 2000);
  // By now the outcomes of one turn make calls in the next one: a full round in both directions.
  const again = async (lease) => {
    await lease.release();
    const next = await redlock.lock(uniqueName("crowd")).acquire();
    await next.release();
  };
  await Promise.all(leases.map(again));
  assert.equal(redlock.leases().length, 0);
});

test("the outcome of a cancelled call does not settle the next call", async () => {
  const redlock = new Redlock("memory://");
  for (let round = 0; round < 20; round++) {
    const controller = new AbortController();
    const cancelled = redlock.lock(uniqueName()).acquire({ signal: controller.signal });
    block(3); // Its lease is in flight by now.
    controller.abort();
    const lock = redlock.lock(uniqueName());
    const next = lock.acquire();
    await assert.rejects(cancelled, { name: "AbortError" });
    const lease = await next;
    const { held, nodes } = await lock.inspect();
    assert.deepEqual([held, nodes[0].token], [true, lease.token.slice(0, 8)]);
    assert.equal(redlock.leases().length, 1);
    await lease.release();
  }
});

test("a lease is released if another lease's caller cancels its acquire", async () => {
  const redlock = new Redlock("memory://");
  for (const acquire of ["acquire", "tryAcquire"]) {
    const controller = new AbortController();
    const lock = redlock.lock(uniqueName());
    const first = redlock.lock(uniqueName())[acquire]();
    const aborting = first.then(() => controller.abort());
    const second = lock.acquire({ signal: controller.signal });
    block(50); // Both outcomes have arrived, and are delivered one after the other.
    const third = aborting.then(() => redlock.lock(uniqueName()).acquire());
    await assert.rejects(second, { name: "AbortError" });
    await (await first).release();
    await (await third).release();
    assert.deepEqual([redlock.leases(), (await lock.inspect()).held], [[], false]);
  }
});

test("many callers of one name are served one at a time and in order", async () => {
  const lock = new Redlock(shared.server.url).lock(uniqueName());
  const order = [];
  let inside = 0;
  const turn = async (number) => {
    const lease = await lock.acquire();
    inside += 1;
    assert.equal(inside, 1, `two holders: ${number} holds the lock beside another caller`);
    order.push(number);
    await undefined;
    inside -= 1;
    await lease.release();
  };
  const numbers = Array.from({ length: 30 }, (_, number) => number);
  await Promise.all(numbers.map(turn));
  assert.deepEqual(order, numbers);
});

test("a lease that expired while the thread was blocked is acquired again", async () => {
  const lock = new Redlock(shared.server.url).lock(uniqueName(), { ttl: 150, renew: false });
  await (await lock.acquire()).release();
  const call = lock.acquire();
  await undefined;
  block(500);
  const lease = await call;
  assert.equal(lease.held, true);
  assert.ok(lease.remaining > 50);
  await lease.release();
});

test("a lease that expired before its caller ran does not block the repeated acquire", async () => {
  const redlock = new Redlock("memory://");
  // The key outlives the lease by 1 % of the TTL and 2 ms, because clocks may drift.
  const ttl = 1_500;
  const acquire = () => redlock.lock(uniqueName(), { ttl, renew: false }).tryAcquire();
  let began = 0;
  const first = acquire().then(() => block(began + ttl - 10 - performance.now()));
  began = performance.now();
  // It arrives with the first one, whose callback runs before.
  const second = await acquire();
  assert.notEqual(second, null);
  await first;
});

test("a slow caller cannot make the next caller's lease expire unnoticed", async () => {
  const redlock = new Redlock("memory://");
  const held = [];
  const call = async () => {
    const lease = await redlock.lock(uniqueName(), { ttl: 150, renew: false }).acquire();
    held.push(lease.held);
    block(200);
  };
  await Promise.all([call(), call(), call()]);
  assert.deepEqual(held, [true, true, true]);
});

test("a repeated acquire shares one wait and ends with LockTimeout", async () => {
  const { server } = shared;
  const lock = new Redlock(server.url).lock(uniqueName(), { ttl: 150, renew: false, wait: 1200 });
  await (await lock.acquire()).release();
  // Calls that are made while outcomes are delivered are sent together afterwards, so this thread must not block there.
  await immediate();
  const ended = [];
  const call = (name, options) =>
    assert.rejects(lock.acquire(options), { kind: "timeout" }).then(() => ended.push(name));
  const first = call("first");
  await undefined;
  block(400);
  // Its lease has expired. Another holder has the key when this thread runs again.
  const foreign = server.cli("SET", lock.key, "x", "NX", "PX", "60000");
  // After this the wait budget is used up, so the new attempt is one round. With a separate budget it would outlast the
  // second call.
  block(900);
  await Promise.all([first, call("second", { wait: 800 }), foreign]);
  assert.deepEqual(ended, ["first", "second"]);
});
