// AbortSignal: before any command is sent, while waiting, afterwards.
import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { Redlock } from "redlock-native";
import { assertNotConnected, eventually, serverForSuite, uniqueName, waiting } from "./helper.mjs";
import { describe, test } from "./testing.mjs";

const shared = serverForSuite();
const listeners = (signal) => getEventListeners(signal, "abort").length;

describe("acquire with a signal", () => {
  test("ends if a signal of another package calls its listener without this", async () => {
    const redlock = new Redlock("memory://");
    const lock = redlock.lock(uniqueName());
    await lock.acquire();
    let abort;
    const addEventListener = (_, listener) => {
      abort = listener;
    };
    const reason = new Error("stop");
    const signal = { aborted: false, reason, addEventListener, removeEventListener() {} };
    const ended = assert.rejects(lock.acquire({ signal }), (error) => error === reason);
    abort();
    await ended;
  });

  test("sends nothing if the signal is already aborted", async () => {
    const { server } = shared;
    const clientName = uniqueName();
    const redlock = new Redlock(server.url, { clientName });
    const reason = new Error("no");
    const signal = AbortSignal.abort(reason);
    await assert.rejects(
      redlock.lock(uniqueName()).acquire({ signal }),
      (error) => error === reason,
    );
    await assertNotConnected(server, clientName);
    assert.equal(listeners(signal), 0);
  });

  test("rejects with the signal's reason, removes its listener and leaves no key", async () => {
    const { server } = shared;
    const redlock = new Redlock(server.url);
    const lock = redlock.lock(uniqueName(), { ttl: 60_000 });
    const lease = await lock.acquire();
    const controller = new AbortController();
    const reason = new Error("enough");
    const aborted = lock.acquire({ signal: controller.signal });
    await waiting(redlock);
    assert.equal(listeners(controller.signal), 1);
    controller.abort(reason);
    assert.equal(listeners(controller.signal), 0);
    await assert.rejects(aborted, (error) => error === reason);
    await waiting(redlock, 0);
    await lease.release();
    assert.equal(await server.cli("EXISTS", lock.key), "0");
    assert.equal(redlock.stats().granted, 1);
    await (await lock.tryAcquire()).release();
  });

  test("leaves no key when aborted at any time during the round", async () => {
    const { server } = shared;
    const redlock = new Redlock(server.url);
    await (await redlock.lock(uniqueName()).acquire()).release();
    let aborted = 0;
    for (let delay = 0; delay < 60; delay++) {
      const lock = redlock.lock(uniqueName("storm"), { ttl: 60_000 });
      const controller = new AbortController();
      const call = lock.acquire({ signal: controller.signal });
      const end = performance.now() + delay * 0.02;
      while (performance.now() < end) await undefined;
      controller.abort();
      try {
        await (await call).release();
      } catch (error) {
        assert.equal(error.name, "AbortError");
        aborted += 1;
      }
    }
    assert.ok(aborted > 0);
    await eventually(async () => assert.equal(await server.cli("KEYS", "lock:storm*"), ""));
  });

  test("works with AbortSignal.timeout and AbortSignal.any", async () => {
    const lock = new Redlock("memory://").lock(uniqueName());
    const lease = await lock.acquire();
    await assert.rejects(lock.acquire({ signal: AbortSignal.timeout(50) }), {
      name: "TimeoutError",
    });
    // Node.js 20 may collect the signals that only `any` refers to. The combined one then never aborts.
    const sources = [AbortSignal.timeout(50), new AbortController().signal];
    const either = AbortSignal.any(sources);
    await assert.rejects(
      lock.using({ signal: either }, () => 1),
      { name: "TimeoutError" },
    );
    assert.ok(sources[0].aborted);
    await lease.release();
  });

  test("keeps the user's onabort and removes its own listener after the grant", async () => {
    const lock = new Redlock("memory://").lock(uniqueName());
    const controller = new AbortController();
    let told = 0;
    controller.signal.onabort = () => {
      told += 1;
    };
    const lease = await lock.acquire({ signal: controller.signal });
    assert.equal(listeners(controller.signal), 1);
    controller.abort();
    assert.equal(told, 1);
    assert.equal(lease.held, true);
    await lease.release();
  });

  test("a cancelled waiter does not block later waiters", async () => {
    const lock = new Redlock("memory://").lock(uniqueName());
    const lease = await lock.acquire();
    const controller = new AbortController();
    const second = lock.acquire({ signal: controller.signal });
    const third = lock.acquire();
    controller.abort();
    await assert.rejects(second, { name: "AbortError" });
    await lease.release();
    await (await third).release();
  });
});
