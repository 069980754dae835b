// The methods over both kinds of node.
import assert from "node:assert/strict";
import { Lease, Redlock } from "redlock-native";
import { serverForSuite, uniqueName, waiting } from "./helper.mjs";
import { describe, test } from "./testing.mjs";

const shared = serverForSuite();
const kinds = {
  "memory://": () => `memory://${uniqueName()}`,
  "redis://": () => shared.server.url,
};

for (const [kind, url] of Object.entries(kinds)) {
  describe(kind, () => {
    const client = (options) => new Redlock(url(), options);

    test("acquire returns a lease that is held until its release", async () => {
      const name = uniqueName();
      const lock = client().lock(name, { ttl: 5000 });
      const lease = await lock.acquire();
      assert.ok(lease instanceof Lease);
      assert.equal(lock.key, `lock:${name}`);
      assert.equal(lease.key, lock.key);
      assert.match(lease.token, /^[0-9a-f]{32}$/);
      assert.equal(lease.held, true);
      assert.ok(Number.isInteger(lease.remaining) && lease.remaining > 3000);
      assert.ok(lease.remaining <= 5000);
      lease.ensureHeld();
      const { token } = lease;
      await lease.release();
      assert.equal(lease.held, false);
      assert.equal(lease.remaining, 0);
      assert.equal(lease.token, token);
      assert.throws(() => lease.ensureHeld(), { kind: "released", resource: lock.key });
      await assert.rejects(lease.extend(), { kind: "released" });
      await lease.release();
      assert.equal(lease.signal.aborted, false);
    });

    test("acquire({ wait }) overrides the wait of the lock", async () => {
      const redlock = client();
      const lock = redlock.lock(uniqueName(), { wait: 0 });
      const first = await lock.acquire();
      const second = lock.acquire({ wait: Number.POSITIVE_INFINITY });
      await waiting(redlock);
      await first.release();
      await (await second).release();
    });

    test("detach ends the lease locally and keeps the key", async () => {
      const redlock = client();
      const name = uniqueName();
      const lease = await redlock.lock(name, { ttl: 2000 }).acquire();
      const told = [];
      lease.onLost((error) => told.push(error));
      const { token } = lease;
      assert.equal(lease.detach(), true);
      assert.deepEqual([lease.held, lease.token, lease.detach()], [false, token, false]);
      assert.deepEqual(redlock.leases(), []);
      await lease.release();
      assert.equal(await redlock.lock(name).tryAcquire(), null);
      // It is not renewed any more, and its end is not a loss.
      await (await redlock.lock(name).acquire({ wait: 20_000 })).release();
      assert.deepEqual(told, []);
    });
  });
}
