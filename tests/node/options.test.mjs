// Accepted arguments. arguments.test.mjs has the refused ones.
import assert from "node:assert/strict";
import { configure, lock, Redlock, withLock } from "redlock-native";
import { assertRefused, uniqueName } from "./helper.mjs";
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

describe("names", () => {
  test("unusual names reach the key unchanged", async () => {
    const name = `${uniqueName()} ä 🔒 {x}\n"`;
    const lease = await client.lock(name).acquire();
    assert.equal(lease.key, `lock:${name}`);
    await assertRefused(client.lock(name));
    await lease.release();
  });
});

describe("arguments of calls", () => {
  test("extend checks its ttl", async () => {
    const lease = await client.lock(uniqueName()).acquire();
    for (const ttl of [10, -1, 1.5, "1000"]) {
      await assert.rejects(lease.extend(ttl), { kind: "invalid" });
    }
    assert.equal(lease.held, true);
    await lease.release();
  });

  test("attach rejects an unknown token", async () => {
    await assert.rejects(client.attach(uniqueName(), "no-token"), { kind: /invalid|lost/ });
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
