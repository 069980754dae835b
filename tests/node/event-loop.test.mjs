// The thread of an event loop reads the replies to its commands itself, without waking the background thread. While the
// loop is blocked, the background thread renews its leases and serves its connections.
import assert from "node:assert/strict";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import { Redlock } from "redlock-native";
import { block, eventually, program, serverForSuite, uniqueName } from "./helper.mjs";
import { slow, test } from "./testing.mjs";

const shared = serverForSuite();
const linux = {
  skip: process.platform !== "linux" && "it needs /proc to find the background thread",
};

/** Uses a lock until the connection is open and this thread, not the background thread, reads its replies. */
async function takeReaderRole(client) {
  for (let turn = 0; turn < 200; turn += 1) await (await client.lock("first").acquire()).release();
}

slow(
  "it counts wake-ups, and a busy machine causes a few more",
  "acquire and release do not wake another thread",
  linux,
  async () => {
    const uses = 1000;
    const { code, stderr, lines } = await program("wake-ups", [shared.server.url, uses]);
    assert.equal(code, 0, stderr);
    // A timer wakes the background thread a few times a second. Reading both replies of each use would wake it 2,000
    // times.
    assert.ok(Number(lines[0]) < uses / 4, lines[0]);
  },
);

slow(
  "it blocks the thread for real seconds",
  "leases are renewed and connections stay open while the thread blocks",
  async () => {
    const client = new Redlock(shared.server.url);
    await takeReaderRole(client);
    const locks = [1000, 1000, 3000].map((ttl) => client.lock(uniqueName(), { ttl }));
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

test("replies that arrive in time while the thread is blocked do not time out", async () => {
  const client = new Redlock(shared.server.url);
  await takeReaderRole(client);
  const lock = client.lock(uniqueName(), { ttl: 10_000, nodeTimeout: 100, renew: false, wait: 0 });
  const acquiring = lock.acquire();
  block(500);
  const lease = await acquiring;
  const extending = lease.extend();
  block(500);
  await extending;
  const releasing = lease.release();
  block(500);
  await releasing;
  await client.shutdown();
});

slow(
  "it relies on a server that replies within 0.1 s",
  "a call at the end of a blocked turn does not time out the calls before it",
  async () => {
    const client = new Redlock(shared.server.url);
    await takeReaderRole(client);
    for (let round = 0; round < 5; round += 1) {
      const lock = client.lock(uniqueName(), { ttl: 60_000, nodeTimeout: 100, renew: false });
      const [lease, other] = [await lock.acquire(), client.lock(uniqueName())];
      const releasing = lease.release();
      // Longer than the timeout, and too short for the background thread to take over.
      block(130);
      // Starting it polls the call above, whose reply is unread and whose time is over.
      const acquiring = other.acquire();
      await releasing;
      await (await acquiring).release();
    }
    await client.shutdown();
  },
);

for (const ending of ["released", "aborted"]) {
  test(`a lock ${ending} right before the process exits leaves no key`, async () => {
    const { code, stderr } = await program("exits", [shared.server.url, ending]);
    assert.equal(code, 0, stderr);
    // The server executes what it received before it closes the connection.
    const clients = () => shared.server.cli("CLIENT", "LIST");
    await eventually(async () => assert.doesNotMatch(await clients(), / name=left-/));
    assert.equal(await shared.server.cli("EXISTS", `lock:left-${ending}`), "0");
  });
}

test("a lock released right before the process exits leaves no key if another grant arrived with it", async () => {
  const { server } = shared;
  const [released, held] = [uniqueName(), uniqueName()];
  const args = [server.url, server.port, released, held];
  const { code, stderr } = await program("exits-in-batch", args);
  assert.equal(code, 0, stderr);
  const clients = () => server.cli("CLIENT", "LIST");
  await eventually(async () => assert.doesNotMatch(await clients(), / name=left-batch/));
  assert.equal(await server.cli("EXISTS", `lock:${released}`), "0");
  // Its caller has not received the lease.
  assert.equal(await server.cli("EXISTS", `lock:${held}`), "0");
});

test("a process that exits before it receives an attached lease does not release it", async () => {
  const { server } = shared;
  const [name, attached] = [uniqueName(), uniqueName()];
  const holder = new Redlock(server.url);
  const lease = await holder.lock(attached, { ttl: 20_000, renew: false }).acquire();
  const args = [server.url, server.port, name, attached, lease.token];
  const { code, stderr } = await program("exits-after-attach", args);
  assert.equal(code, 0, stderr);
  const clients = () => server.cli("CLIENT", "LIST");
  await eventually(async () => assert.doesNotMatch(await clients(), / name=left-attach/));
  assert.equal(await server.cli("EXISTS", lease.key), "1");
  await lease.release();
  await holder.shutdown();
});

test("process.nextTick callbacks run before a released lease continues, and after it", async () => {
  const client = new Redlock(shared.server.url);
  await takeReaderRole(client);
  const lock = client.lock(uniqueName());
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
  "it terminates workers after many different delays",
  "terminating a worker while it reads replies does not affect other threads",
  async () => {
    const client = new Redlock(shared.server.url);
    await takeReaderRole(client);
    const file = new URL("programs/worker.mjs", import.meta.url);
    const lease = await client.lock(uniqueName(), { ttl: 1000 }).acquire();
    const terminateAfter = async (delay) => {
      const name = uniqueName();
      const worker = new Worker(file, {
        workerData: { node: shared.server.url, name, task: "flood" },
      });
      await once(worker, "message");
      await sleep(delay);
      await worker.terminate();
      // If the worker held the lock, its key expires after one TTL.
      await (await client.lock(name, { wait: 5000 }).acquire()).release();
    };
    for (let round = 0; round < 5; round += 1) {
      await Promise.all([0, 3, 6, 9].map((delay) => terminateAfter(delay + round)));
    }
    assert.equal(lease.held, true);
    await lease.release();
    await client.shutdown();
  },
);
