// The statistics of a client. An unnamed node in memory belongs to one client only.
import assert from "node:assert/strict";
import { Redlock } from "redlock-native";
import { assertRefused, eventually, serverForSuite, uniqueName } from "./helper.mjs";
import { describe, test } from "./testing.mjs";

const shared = serverForSuite();

describe("stats", () => {
  for (const kind of ["memory://", "redis://"]) {
    test(`counts the ends of acquires and leases over ${kind}`, async () => {
      const client = new Redlock(kind === "memory://" ? kind : shared.server.url);
      const lock = client.lock(uniqueName(), { renew: false });
      const lease = await lock.acquire();
      await assertRefused(lock);
      await assert.rejects(lock.acquire({ wait: 100 }), { kind: "timeout" });
      assert.equal(client.stats().held, 1);
      await lease.release();
      const expires = await client.lock(uniqueName(), { ttl: 200, renew: false }).acquire();
      await eventually(() => assert.equal(expires.held, false));
      await eventually(() => assert.equal(client.stats().lost.expired, 1));
      const { lost, timeWaited, timeHeld, ...counts } = client.stats();
      assert.deepEqual(counts, {
        granted: 2,
        refused: 1,
        timedOut: 1,
        unavailable: 0,
        released: 1,
        renewed: 0,
        unrenewed: 0,
        reconnects: 0,
        waiting: 0,
        held: 0,
      });
      assert.equal(lost.expired, 1);
      assert.equal(Object.keys(lost).length, 9);
      assert.ok(timeWaited >= 100 && timeHeld >= 100, `${timeWaited} ${timeHeld}`);
    });
  }

  test("an unnamed memory node belongs to one client", async () => {
    const name = uniqueName();
    const [one, two] = [new Redlock("memory://"), new Redlock("memory://")];
    const lease = await one.lock(name).acquire();
    const other = await two.lock(name).tryAcquire();
    assert.ok(other);
    await assertRefused(one.lock(name));
    await Promise.all([lease.release(), other.release()]);
  });
});
