// What arguments may be, and what is said about those that may not.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { configure, lock, Redlock, using } from "redlock-native";
import { fresh } from "./helper.mjs";

const client = new Redlock("memory://");

/** Throws InvalidOption, and says so. */
function refused(call, ...texts) {
  assert.throws(call, (error) => {
    assert.equal(error.name, "InvalidOption");
    assert.equal(error.code, "invalid");
    for (const text of texts) assert.match(error.message, text);
    return true;
  });
}

describe("a lock's options", () => {
  test("a number where options belong is told about ttl", () => {
    refused(() => client.lock("res", 1000), /ttl is in milliseconds/, /\{ ttl: 1000 \}/);
    refused(() => lock("res", 1000), /ttl is in milliseconds/);
    refused(() => client.lock("res", [1000]), /must be an object/);
    refused(() => client.lock("res", null), /must be an object/);
    refused(() => client.lock("res", "10s"), /must be an object/);
  });

  test("other libraries' options name the right one", () => {
    refused(() => client.lock("res", { duration: 1000 }), /duration/, /ttl/, /milliseconds/);
    refused(() => client.lock("res", { timeout: 1000 }), /timeout/, /wait/, /ttl/);
    refused(() => client.lock("res", { retryCount: 3 }), /retryCount/, /wait/);
    refused(() => client.lock("res", { retryDelay: 3 }), /retryDelay/, /wait/);
    refused(() => client.lock("res", { automaticExtensionThreshold: 5 }), /renew/);
    refused(() => new Redlock("memory://", { driftFactor: 0.01 }), /driftFactor/, /drift/);
    refused(() => new Redlock("memory://", { retryCount: 10 }), /wait/);
  });

  test("unknown names are errors that list the known ones", () => {
    refused(() => client.lock("res", { tll: 1000 }), /no option tll/, /ttl, wait, renew/);
    refused(() => client.lock("res", { toString: 1 }), /no option toString/);
    refused(() => client.lock("res", { __proto__: { a: 1 }, b: 1 }), /no option b/);
    refused(() => new Redlock("memory://", { prefix: "x" }), /no option prefix/, /keyPrefix/);
  });

  test("a ttl that looks like seconds is told the unit", () => {
    refused(() => client.lock("res", { ttl: 10 }), /ttl is in milliseconds/);
    refused(() => lock("res", { ttl: 10 }), /ttl is in milliseconds/);
    refused(() => client.lock("res", { ttl: 0.5 }), /whole number/, /ttl is in milliseconds/);
  });

  test("wrong types and values are refused", () => {
    for (const ttl of [0, -1, 99, 1.5, Number.NaN, Infinity, "1000", null, true, {}]) {
      refused(() => client.lock("res", { ttl }), /ttl/);
    }
    for (const wait of [-1, 1.5, Number.NaN, -Infinity, "5", null]) {
      refused(() => client.lock("res", { wait }), /wait/);
    }
    refused(() => client.lock("res", { renew: 1 }), /renew/, /boolean/);
    refused(() => client.lock("res", { maxHold: 1 }), /maxHold/);
    refused(() => client.lock("res", { nodeTimeout: 0 }), /nodeTimeout/);
    refused(() => client.lock("res", { nodeTimeout: 60_000 }), /nodeTimeout/);
    refused(() => new Redlock("memory://", { keyPrefix: 1 }), /keyPrefix/, /string/);
  });

  test("undefined means not given", async () => {
    const options = { ttl: undefined, wait: undefined, renew: undefined, maxHold: undefined };
    const lease = await client.lock(fresh(), options).acquire({ wait: undefined });
    assert.ok(lease.remaining > 9000);
    await lease.release();
  });
});

describe("names and nodes", () => {
  test("names are strings, at least one, none empty, none twice", () => {
    for (const names of [undefined, null, 7, {}, [7], ["a", null], [["a"]]]) {
      refused(() => client.lock(names), /name/, /string/);
    }
    refused(() => client.lock([]), /name/);
    refused(() => client.lock(""), /name/);
    refused(() => client.lock(["a", "a"]), /twice/);
  });

  test("nodes are URLs", () => {
    for (const nodes of [undefined, {}, [{}], 7, null]) refused(() => new Redlock(nodes), /URL/);
    refused(() => new Redlock([]), /node/);
    refused(() => new Redlock("http://localhost"), /http/);
    refused(() => new Redlock("redis://user:secret@host:port"), /^(?!.*secret)/);
  });

  test("unusual names reach the key unchanged", async () => {
    const name = `${fresh()} ä 🔒 {x}\n"`;
    const lease = await client.lock(name).acquire();
    assert.equal(lease.key, `lock:${name}`);
    assert.equal(await client.lock(name).tryAcquire(), null);
    await lease.release();
  });
});

describe("arguments of calls", () => {
  test("acquire checks its own", async () => {
    const described = client.lock(fresh());
    await assert.rejects(described.acquire({ timeout: 5 }), { code: "invalid" });
    await assert.rejects(described.acquire(500), { code: "invalid" });
    await assert.rejects(described.acquire({ wait: -1 }), { code: "invalid" });
    await assert.rejects(described.acquire({ signal: {} }), { code: "invalid" });
    assert.equal((await described.inspect()).held, false);
  });

  test("extend checks its ttl", async () => {
    const lease = await client.lock(fresh()).acquire();
    for (const ttl of [10, -1, 1.5, "1000"]) {
      await assert.rejects(lease.extend(ttl), { code: "invalid" });
    }
    assert.equal(lease.held, true);
    await lease.release();
  });

  test("using wants a function", async () => {
    await assert.rejects(client.using("a", { ttl: 1000 }), { code: "invalid" });
    await assert.rejects(using("a", { ttl: 1000 }), { code: "invalid" });
    await assert.rejects(using("a"), { code: "invalid" });
  });

  test("a token is not made up", async () => {
    await assert.rejects(client.attach(fresh(), "no-token"), { code: /invalid|lost/ });
  });
});

test("configure is refused once the default client is in use, unless it replaces", async () => {
  configure("memory://first", { keyPrefix: "one:" });
  configure("memory://second", { keyPrefix: "two:" });
  const described = lock(fresh());
  const lease = await described.acquire();
  assert.match(lease.key, /^two:/);
  refused(() => configure("memory://third"), /in use/);
  configure("memory://third", { keyPrefix: "three:", replace: true });
  const next = await described.acquire();
  assert.match(next.key, /^three:/);
  assert.equal(await using(fresh(), ({ key }) => key.slice(0, 6)), "three:");
  await Promise.all([lease.release(), next.release()]);
  refused(() => configure("memory://", { replace: 1 }), /replace/);
});
