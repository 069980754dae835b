// AbortSignal: before anything is sent, while waiting, afterwards.
import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { Redlock } from "redlock-native";
import { eventually, fresh, serverForSuite } from "./helper.mjs";
import { describe, test } from "./testing.mjs";

const shared = serverForSuite();
const listeners = (signal) => getEventListeners(signal, "abort").length;

describe("an acquire with a signal", () => {
  test("that is aborted already sends nothing", async () => {
    const { server } = shared;
    const before = await server.cli("INFO", "commandstats");
    const redlock = new Redlock(server.url);
    const reason = new Error("no");
    const signal = AbortSignal.abort(reason);
    await assert.rejects(redlock.lock(fresh()).acquire({ signal }), (error) => error === reason);
    await sleep(50);
    const calls = (text) => /cmdstat_(evalsha|eval|set|client)/.test(text);
    assert.equal(calls(await server.cli("INFO", "commandstats")), calls(before));
    assert.equal(listeners(signal), 0);
  });

  test("stops waiting with the signal's reason, removes its listener and leaves no key", async () => {
    const { server } = shared;
    const lock = new Redlock(server.url).lock(fresh(), { ttl: 5000 });
    const lease = await lock.acquire();
    const controller = new AbortController();
    const reason = new Error("enough");
    const waiting = lock.acquire({ signal: controller.signal });
    await sleep(50);
    assert.equal(listeners(controller.signal), 1);
    controller.abort(reason);
    assert.equal(listeners(controller.signal), 0);
    await assert.rejects(waiting, (error) => error === reason);
    await lease.release();
    await sleep(100);
    assert.equal(await server.cli("EXISTS", lock.key), "0");
    await (await lock.tryAcquire()).release();
  });

  test("aborted at any moment of the round leaves no key", async () => {
    const { server } = shared;
    const redlock = new Redlock(server.url);
    await (await redlock.lock(fresh()).acquire()).release();
    let aborted = 0;
    for (let delay = 0; delay < 60; delay++) {
      const lock = redlock.lock(fresh("storm"), { ttl: 60_000 });
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
    const lock = new Redlock("memory://").lock(fresh());
    const lease = await lock.acquire();
    await assert.rejects(lock.acquire({ signal: AbortSignal.timeout(50) }), {
      name: "TimeoutError",
    });
    const either = AbortSignal.any([AbortSignal.timeout(50), new AbortController().signal]);
    await assert.rejects(
      lock.using(() => 1, { signal: either }),
      { name: "TimeoutError" },
    );
    await lease.release();
  });

  test("keeps the user's onabort, and no listener once it has the lease", async () => {
    const lock = new Redlock("memory://").lock(fresh());
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

  test("a cancelled waiter does not block those behind it", async () => {
    const lock = new Redlock("memory://").lock(fresh());
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
