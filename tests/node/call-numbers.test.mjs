// Each call, lease and credentials function has a number. A number in use is never assigned again.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { eventually, uniqueName } from "./helper.mjs";
import { describe, test } from "./testing.mjs";

const require = createRequire(import.meta.url);
// The package does not export `__setLastNumberForTests`, so the built modules are loaded directly.
const { Redlock } = require("../../bindings-node/dist/client/client.js");
const { native } = require("../../bindings-node/dist/runtime/runtime.js");

/** The next call gets the number after this one. */
const setLastNumber = (number) => native().__setLastNumberForTests(number);

/** A counter of 31, 32 or 33 bits would wrap here. */
for (const limit of [2 ** 31, 2 ** 32, 2 ** 33]) {
  describe(`after ${limit} calls`, () => {
    test("a new lease does not replace one that is held", async () => {
      const client = new Redlock(`memory://${uniqueName()}`);
      const acquire = () => client.lock(uniqueName()).acquire();
      // The numbers that a counter would assign again after it wraps.
      setLastNumber(0);
      const first = [await acquire(), await acquire(), await acquire(), await acquire()];
      setLastNumber(limit - 3);
      const later = [];
      for (let at = 0; at < 8; at += 1) later.push(await acquire());
      assert.equal(client.leases().length, 12);
      for (const lease of later) {
        await lease.release();
        const name = lease.key.slice("lock:".length);
        assert.equal((await client.lock(name).inspect()).held, false);
      }
      for (const lease of first) assert.ok(lease.held, lease.key);
      const lost = [];
      for (const lease of first) lease.onLost(({ resource }) => lost.push(resource));
      client.close();
      await eventually(() => assert.equal(lost.length, 4));
      assert.deepEqual(lost.sort(), first.map(({ key }) => key).sort());
      setLastNumber(limit + 1000);
    });

    test("a cancelled call does not settle a later one", async () => {
      const client = new Redlock(`memory://${uniqueName()}`);
      const lock = client.lock(uniqueName());
      const lease = await lock.acquire();
      setLastNumber(limit - 2);
      const stop = new AbortController();
      const stopped = lock.acquire({ signal: stop.signal });
      const waiting = lock.acquire();
      stop.abort();
      await assert.rejects(stopped, { name: "AbortError" });
      await lease.release();
      const next = await waiting;
      assert.ok(next.held);
      await next.release();
      assert.equal(client.stats().held, 0);
      setLastNumber(limit + 2000);
    });
  });
}
