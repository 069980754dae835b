// Which objects represent a lease, and who receives its loss: every registered listener once, and none after a release.
import assert from "node:assert/strict";
import { AsyncLocalStorage } from "node:async_hooks";
import { execFile } from "node:child_process";
import diagnostics from "node:diagnostics_channel";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { Lease, Redlock } from "redlock-native";
import { block, eventually, laterLoss, uniqueName } from "./helper.mjs";
import { describe, test } from "./testing.mjs";

const run = promisify(execFile);

async function heldLease() {
  const redlock = new Redlock(`memory://${uniqueName()}`);
  const name = uniqueName();
  const lease = await redlock.lock(name, { fencing: true }).acquire();
  return { redlock, name, lease };
}

test("leases() returns the same objects as acquire, new and old", async () => {
  const { redlock, name, lease } = await heldLease();
  assert.ok(lease instanceof Lease && Number.isInteger(lease.remaining));
  // Its line is known once it is not new any more.
  const refused = () => redlock.lock(name).acquire({ wait: 0 });
  await eventually(() => assert.rejects(refused(), { acquiredAt: /loss-listeners\.test/ }));
  assert.equal(redlock.leases()[0], lease);
  const tried = await redlock.lock(uniqueName()).tryAcquire();
  const attached = await redlock.attach(name, lease.token);
  assert.deepEqual(new Set(redlock.leases()), new Set([lease, tried, attached]));
  attached.detach();
  await redlock.using(uniqueName(), (used) => assert.ok(redlock.leases().includes(used)));
  await tried.release();
  assert.deepEqual(redlock.leases(), [lease]);
  await lease.release();
  assert.deepEqual(redlock.leases(), []);
});

test("leases() lists no lease before its caller receives it", async () => {
  const redlock = new Redlock(`memory://${uniqueName()}`);
  const handedOut = [];
  const seen = [];
  const acquire = async () => {
    handedOut.push(await redlock.lock(uniqueName()).acquire());
    seen.push([redlock.leases(), [...handedOut]]);
  };
  const acquiring = [acquire(), acquire(), acquire()];
  // All outcomes have arrived by then, and are delivered one after the other.
  block(50);
  await Promise.all(acquiring);
  for (const [listed, known] of seen) assert.deepEqual(new Set(listed), new Set(known));
  assert.equal(redlock.leases().length, 3);
});

test("every listener is notified of the loss in registration order", async () => {
  const { redlock, name, lease } = await heldLease();
  const told = [];
  lease.onLost((error) => told.push(["one", error.kind]));
  redlock.leases()[0].onLost((error) => told.push(["two", error.kind]));
  const { signal } = lease;
  await redlock.forceRelease(name);
  await eventually(() => assert.ok(signal.aborted));
  await laterLoss(redlock);
  assert.deepEqual(told, [
    ["one", "lost"],
    ["two", "lost"],
  ]);
});

test("a release is not a loss", async () => {
  const { redlock, lease } = await heldLease();
  const told = [];
  lease.onLost((error) => told.push(error));
  const { signal } = lease;
  await lease.release();
  await laterLoss(redlock);
  redlock.close();
  await laterLoss(new Redlock(`memory://${uniqueName()}`));
  assert.deepEqual([told, signal.aborted], [[], false]);
});

const shared = new Redlock(`memory://${uniqueName()}`);

describe("AsyncLocalStorage", () => {
  const store = new AsyncLocalStorage();
  const lost = async (register) => {
    const name = uniqueName();
    const lease = await shared.lock(name).acquire();
    const told = register(lease);
    await shared.forceRelease(name);
    await told;
    return told;
  };
  // Waiting for a loss does not keep a process alive.
  const alive = async (work) => {
    const timer = setInterval(() => undefined, 1000);
    try {
      return await work();
    } finally {
      clearInterval(timer);
    }
  };

  test("onLost callbacks run with the store of their registration", async () => {
    const seen = [];
    await alive(() =>
      lost(async (lease) => {
        const on = (request) =>
          store.run(
            request,
            () => new Promise((done) => lease.onLost(() => done(seen.push(store.getStore())))),
          );
        await Promise.all([on("one"), on("two")]);
      }),
    );
    assert.deepEqual(seen, ["one", "two"]);
  });

  test("an onLost callback of a lost lease runs with its store", async () => {
    const lease = await shared.lock(uniqueName(), { ttl: 100, renew: false }).acquire();
    block(150);
    const register = () => new Promise((resolve) => lease.onLost(() => resolve(store.getStore())));
    assert.equal(await store.run("late", register), "late");
  });

  test("listeners of lease.signal run with the store of its first read", async () => {
    const listen = (lease) =>
      store.run("request", async () => {
        const { signal } = lease;
        return new Promise((resolve) =>
          signal.addEventListener("abort", () => resolve(store.getStore())),
        );
      });
    assert.equal(await alive(() => lost(listen)), "request");
  });
});

test("a callback that registers itself again does not block the event loop", async () => {
  const program = `
    import { Redlock } from "redlock-native";
    const client = new Redlock("memory://");
    const lease = await client.lock("job").acquire();
    const called = new Promise((resolve) =>
      lease.onLost(function again() {
        lease.onLost(again);
        resolve();
      }),
    );
    client.close();
    const alive = setInterval(() => undefined, 1000);
    await called;
    clearInterval(alive);
    setImmediate(() => process.exit(0));
  `;
  const words = ["--input-type=module", "-e", program];
  const cwd = fileURLToPath(new URL(".", import.meta.url));
  // The limit ends a process that hangs.
  await run(process.execPath, words, { cwd, timeout: 20_000, killSignal: "SIGKILL" });
});

describe("the function that onLost returns", () => {
  test("removes only its own callback", async () => {
    const name = uniqueName();
    const lease = await shared.lock(name).acquire();
    const told = [];
    const same = () => told.push("same");
    const remove = lease.onLost(same);
    lease.onLost(same);
    assert.equal(remove(), undefined);
    remove();
    const heard = new Promise((resolve) => lease.onLost(resolve));
    const timer = setInterval(() => undefined, 1000);
    await shared.forceRelease(name);
    await heard;
    clearInterval(timer);
    assert.deepEqual(told, ["same"]);
  });

  test("removes a callback that would run soon", async () => {
    const lease = await shared.lock(uniqueName(), { ttl: 100, renew: false }).acquire();
    block(150);
    const told = [];
    lease.onLost(() => told.push("taken back"))();
    await new Promise((resolve) => lease.onLost(resolve));
    assert.deepEqual(told, []);
  });

  test("a callback that throws does not stop the other callbacks", async () => {
    const name = uniqueName();
    const lease = await shared.lock(name).acquire();
    const failure = new Error("the callback's");
    lease.onLost(() => {
      throw failure;
    });
    const heard = new Promise((resolve) => lease.onLost(resolve));
    const listening = process.listeners("uncaughtException");
    process.removeAllListeners("uncaughtException");
    const thrown = once(process, "uncaughtException");
    const timer = setInterval(() => undefined, 1000);
    await shared.forceRelease(name);
    assert.equal((await heard).kind, "lost");
    assert.equal((await thrown)[0], failure);
    clearInterval(timer);
    for (const listener of listening) process.on("uncaughtException", listener);
  });
});

test("a loss waits for one event at most, however many are queued", async () => {
  const redlock = new Redlock(`memory://${uniqueName()}`);
  const order = [];
  const leases = [];
  let lost;
  const renewed = () => {
    order.push("event");
    if (order.length > 1) return;
    // Meanwhile a renewal of each lease is queued several times, and behind them the loss.
    while (redlock.stats().renewed < 500 || lost.held);
  };
  // A lease does not keep the process alive.
  const timer = setInterval(() => undefined, 1000);
  try {
    for (let count = 0; count < 100; count += 1) {
      leases.push(await redlock.lock(`renewed-${count}`, { ttl: 600 }).acquire());
    }
    lost = await redlock.lock("lost", { ttl: 2_000, renew: false }).acquire();
    // Not earlier, because the first renewals may be due while the leases are acquired.
    diagnostics.subscribe("redlock:renew", renewed);
    const told = new Promise((resolve) => lost.onLost(resolve));
    void told.then(() => order.push("loss"));
    await told;
    await eventually(() => assert.ok(order.length > 200));
    const first = order.indexOf("event");
    const between = order.indexOf("loss") - first;
    assert.ok(between >= 1 && between <= 3, `${between} events before the loss`);
  } finally {
    clearInterval(timer);
    diagnostics.unsubscribe("redlock:renew", renewed);
    redlock.close();
  }
});
