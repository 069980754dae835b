// The event loop's own thread reads its replies. The background thread is not woken for that, and does the work that
// the loop does not reach.
import assert from "node:assert/strict";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import { Redlock } from "redlock-native";
import { eventually, fresh, program, serverForSuite } from "./helper.mjs";
import { slow, test } from "./testing.mjs";

const shared = serverForSuite();
const linux = { skip: process.platform !== "linux" && "threads are told apart by /proc here" };

function block(time) {
  const end = performance.now() + time;
  while (performance.now() < end);
}

/** Runs until this thread reads the connection. */
async function warm(client) {
  for (let turn = 0; turn < 200; turn += 1) await (await client.lock("warm").acquire()).release();
}

slow(
  "it counts wake-ups, of which a busy machine adds some",
  "acquire and release do not wake another thread",
  linux,
  async () => {
    const pairs = 1000;
    const { code, stderr, lines } = await program("wake-ups", [shared.server.url, pairs]);
    assert.equal(code, 0, stderr);
    // The thread wakes a few times a second on a timer. If it reads the replies, it wakes 2,000 times and more.
    assert.ok(Number(lines[0]) < pairs / 4, lines[0]);
  },
);

slow(
  "it blocks the thread for real seconds",
  "leases are renewed and connections stay open while the thread blocks",
  async () => {
    const client = new Redlock(shared.server.url);
    await warm(client);
    const locks = [1000, 1000, 3000].map((ttl) => client.lock(fresh(), { ttl }));
    const leases = await Promise.all(locks.map((lock) => lock.acquire()));
    const lost = [];
    for (const lease of leases) lease.onLost((error) => lost.push(error));
    block(5000);
    for (const lease of leases) lease.ensureHeld();
    await sleep(100);
    assert.deepEqual(lost, []);
    assert.equal(client.stats().reconnects, 0);
    await Promise.all(leases.map((lease) => lease.release()));
    await client.shutdown();
  },
);

test("replies that arrive while the thread is blocked count as in time", async () => {
  const client = new Redlock(shared.server.url);
  await warm(client);
  const lock = client.lock(fresh(), { ttl: 10_000, nodeTimeout: 100, renew: false, wait: 0 });
  const asked = lock.acquire();
  block(500);
  const lease = await asked;
  const extended = lease.extend();
  block(500);
  await extended;
  const released = lease.release();
  block(500);
  await released;
  await client.shutdown();
});

for (const way of ["released", "aborted"]) {
  test(`a lock ${way} right before the process exits leaves no key`, async () => {
    const { code, stderr } = await program("exits", [shared.server.url, way]);
    assert.equal(code, 0, stderr);
    // The server executes what it received before it closes the connection.
    const clients = () => shared.server.cli("CLIENT", "LIST");
    await eventually(async () => assert.doesNotMatch(await clients(), / name=left-/));
    assert.equal(await shared.server.cli("EXISTS", `lock:left-${way}`), "0");
  });
}

test("process.nextTick and microtasks run between two deliveries", async () => {
  const client = new Redlock(shared.server.url);
  await warm(client);
  const lock = client.lock(fresh());
  const lease = await lock.acquire();
  const order = [];
  process.nextTick(() => order.push("tick"));
  await lease.release();
  order.push("released");
  assert.deepEqual(order, ["tick", "released"]);
  process.nextTick(() => order.push("next"));
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(order, ["tick", "released", "next"]);
  await client.shutdown();
});

slow(
  "it ends workers at many real moments",
  "terminating a worker while it reads does not affect other threads",
  async () => {
    const client = new Redlock(shared.server.url);
    await warm(client);
    const file = new URL("programs/worker.mjs", import.meta.url);
    const lease = await client.lock(fresh(), { ttl: 1000 }).acquire();
    const end = async (after) => {
      const name = fresh();
      const worker = new Worker(file, {
        workerData: { node: shared.server.url, name, task: "flood" },
      });
      await once(worker, "message");
      await sleep(after);
      await worker.terminate();
      // If it held the lock, the key expires when its TTL ends.
      await (await client.lock(name, { wait: 5000 }).acquire()).release();
    };
    for (let round = 0; round < 5; round += 1) {
      await Promise.all([0, 3, 6, 9].map((after) => end(after + round)));
    }
    assert.equal(lease.held, true);
    await lease.release();
    await client.shutdown();
  },
);
