// A caller's signal in every function that takes one: using, withLock, tryAcquire. arguments.test.mjs has the others.
import assert from "node:assert/strict";
import { getEventListeners, once } from "node:events";
import { configure, Redlock, withLock } from "redlock-native";
import {
  assertRefused,
  block,
  eventually,
  refusal,
  Server,
  serverForSuite,
  uniqueName,
  waiting,
} from "./helper.mjs";
import { describe, test } from "./testing.mjs";

const redlock = new Redlock(`memory://${uniqueName()}`);
const shared = serverForSuite();
const listeners = (signal) => getEventListeners(signal, "abort").length;
const free = async (name) => assert.equal((await redlock.lock(name).inspect()).held, false);

/** Each way into a body with a signal: a name, the signal, the body. */
const WAYS = {
  "client.using": (name, signal, body) => redlock.using(name, { ttl: 5000, signal }, body),
  withLock: (name, signal, body) => {
    configure(redlock.nodes, { replace: true });
    return withLock(name, { signal }, body);
  },
  "lock.using": (name, signal, body) => redlock.lock(name).using({ signal }, body),
};

for (const [way, call] of Object.entries(WAYS)) {
  describe(`${way} with a signal`, () => {
    test("rejects with its reason and does not run the body", async () => {
      const name = uniqueName();
      const lease = await redlock.lock(name).acquire();
      const controller = new AbortController();
      const entering = call(name, controller.signal, () => assert.fail("the body must not run"));
      await eventually(() => assert.equal(listeners(controller.signal), 1));
      const reason = new Error("enough");
      controller.abort(reason);
      await assert.rejects(entering, (error) => error === reason);
      assert.equal(listeners(controller.signal), 0);
      await lease.release();
      await free(name);
    });

    test("sends nothing if it is already aborted", async () => {
      const reason = new Error("no");
      const name = uniqueName();
      const body = () => assert.fail("the body must not run");
      await assert.rejects(call(name, AbortSignal.abort(reason), body), (e) => e === reason);
      await free(name);
    });

    test("aborts lease.signal while the body runs and keeps the lease", async () => {
      const name = uniqueName();
      const controller = new AbortController();
      const reason = new Error("stop");
      const told = [];
      let seen;
      const running = call(name, controller.signal, async (lease) => {
        seen = lease.signal;
        lease.onLost((error) => told.push(error));
        setImmediate(() => controller.abort(reason));
        await once(lease.signal, "abort");
        assert.equal(lease.held, true);
        lease.ensureHeld();
        throw lease.signal.reason;
      });
      await assert.rejects(running, (error) => error === reason);
      assert.deepEqual([seen.aborted, seen.reason, told], [true, reason, []]);
      assert.equal(listeners(controller.signal), 0);
      await free(name);
    });

    test("does not stop the body, and aborts a lease.signal that is read later", async () => {
      const name = uniqueName();
      const controller = new AbortController();
      const result = await call(name, controller.signal, async (lease) => {
        controller.abort("late");
        return [lease.signal.aborted, lease.signal.reason];
      });
      assert.deepEqual(result, [true, "late"]);
      await free(name);
    });

    test("has no listener after the body has ended", async () => {
      const controller = new AbortController();
      let seen;
      await call(uniqueName(), controller.signal, (lease) => {
        seen = lease.signal;
        assert.equal(listeners(controller.signal), 1);
      });
      assert.equal(listeners(controller.signal), 0);
      controller.abort();
      assert.equal(seen.aborted, false);
    });
  });
}

test("a loss after the abort reaches onLost and keeps the signal's reason", async () => {
  const name = uniqueName();
  const controller = new AbortController();
  const alive = setInterval(() => undefined, 1000);
  const body = async (lease) => {
    const told = new Promise((resolve) => lease.onLost(resolve));
    controller.abort("first");
    await redlock.forceRelease(name);
    assert.equal((await told).kind, "lost");
    assert.equal(lease.signal.reason, "first");
  };
  await assert.rejects(redlock.using(name, { signal: controller.signal }, body), { kind: "lost" });
  clearInterval(alive);
});

test("an abort between grant and body releases the lease", async () => {
  const name = uniqueName();
  const controller = new AbortController();
  const first = redlock.lock(uniqueName()).acquire();
  const body = () => assert.fail("the body must not run");
  // Both outcomes have arrived when the thread runs. The first caller aborts the second.
  const aborting = first.then(() => controller.abort());
  const call = redlock.using(name, { signal: controller.signal }, body);
  block(30);
  await assert.rejects(call, { name: "AbortError" });
  await aborting;
  await (await first).release();
  await free(name);
});

test("many bodies share one listener of a signal and each is aborted", async () => {
  const controller = new AbortController();
  let entered = 0;
  const bodies = Array.from({ length: 30 }, () =>
    redlock.using(uniqueName(), { signal: controller.signal }, async (lease) => {
      entered += 1;
      await once(lease.signal, "abort");
      return lease.signal.reason;
    }),
  );
  await eventually(() => assert.equal(entered, 30));
  assert.equal(listeners(controller.signal), 1);
  controller.abort("all");
  assert.deepEqual(await Promise.all(bodies), Array(30).fill("all"));
});

test("an error that an invalid signal causes in the body releases the lease", async () => {
  const name = uniqueName();
  let calls = 0;
  const addEventListener = () => {
    calls += 1;
    if (calls > 1) throw new Error("only once");
  };
  const signal = { aborted: false, addEventListener, removeEventListener: () => undefined };
  const refused = redlock.using(name, { signal }, () => assert.fail("the body must not run"));
  await assert.rejects(refused, refusal(["cannot listen to the signal"]));
  await free(name);
});

describe("tryAcquire with a signal", () => {
  test("rejects with its reason if it is already aborted", async () => {
    const name = uniqueName();
    const reason = new Error("no");
    const refused = redlock.lock(name).tryAcquire({ signal: AbortSignal.abort(reason) });
    await assert.rejects(refused, (error) => error === reason);
    await free(name);
  });

  test("ends the round of a silent node and leaves no key", async () => {
    const server = await Server.start();
    try {
      const frozen = new Redlock(server.url, { nodeTimeout: 5000 });
      const described = frozen.lock(uniqueName(), { ttl: 30_000 });
      await (await described.tryAcquire()).release();
      server.process.kill("SIGSTOP");
      const controller = new AbortController();
      let over = false;
      const other = frozen.lock(uniqueName()).tryAcquire();
      const otherEnds = other
        .then((lease) => lease.release())
        .finally(() => {
          over = true;
        });
      const trying = described.tryAcquire({ signal: controller.signal });
      await waiting(frozen, 2);
      controller.abort();
      await assert.rejects(trying, { name: "AbortError" });
      assert.equal(over, false, "the abort waited for the round");
      assert.equal(listeners(controller.signal), 0);
      server.process.kill("SIGCONT");
      await otherEnds;
      // Its reply comes late, and its grant is released.
      await (await described.acquire({ wait: 10_000 })).release();
      assert.equal(await server.cli("EXISTS", described.key), "0");
    } finally {
      await server.stop();
    }
  });

  test("returns the lease or null and removes its listener", async () => {
    const { signal } = new AbortController();
    const described = new Redlock(shared.server.url).lock(uniqueName());
    const lease = await described.tryAcquire({ signal });
    await assertRefused(described, { signal });
    assert.equal(listeners(signal), 0);
    await lease.release();
  });
});
