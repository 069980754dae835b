// Accepted arguments. arguments.test.mjs has the refused ones.
import assert from "node:assert/strict";
import { configure, lock, Redlock, withLock } from "redlock-native";
import { uniqueName } from "./helper.mjs";
import { describe, test } from "./testing.mjs";

const client = new Redlock("memory://");

describe("a lock's options", () => {
  test("properties of every object are not options", () => {
    for (const options of [{ toString: 1 }, { __proto__: { a: 1 }, constructor: 1 }]) {
      assert.throws(() => client.lock("res", options), {
        kind: "invalid",
        message: /unknown option/,
      });
    }
  });

  test("inherited options are checked, too", async () => {
    const shared = (options) => Object.create(options);
    const rejects = (options, message) =>
      assert.throws(() => client.lock("res", options), { kind: "invalid", message });
    rejects(shared({ waiting: 1 }), /unknown option waiting\. /);
    rejects(Object.create(shared({ waiting: 1 })), /unknown option waiting\. /);
    rejects({ "": 1 }, /unknown option ""\. /);
    const lease = await client.lock(uniqueName(), shared({ ttl: 5000 })).acquire();
    assert.ok(lease.remaining <= 5000);
    await lease.release();
  });

  test("undefined means that the option is not set", async () => {
    const options = { ttl: undefined, wait: undefined, renew: undefined, maxHold: undefined };
    const lease = await client.lock(uniqueName(), options).acquire({ wait: undefined });
    assert.ok(lease.remaining > 9000);
    await lease.release();
  });
});

test("configure needs replace once the default client is in use", async () => {
  configure("memory://first", { keyPrefix: "one:" });
  configure("memory://second", { keyPrefix: "two:" });
  const described = lock(uniqueName());
  const lease = await described.acquire();
  assert.match(lease.key, /^two:/);
  assert.throws(() => configure("memory://third"), { kind: "invalid", message: /in use/ });
  configure("memory://third", { keyPrefix: "three:", replace: true });
  const next = await described.acquire();
  assert.match(next.key, /^three:/);
  assert.equal(await withLock(uniqueName(), ({ key }) => key.slice(0, 6)), "three:");
  await Promise.all([lease.release(), next.release()]);
});
