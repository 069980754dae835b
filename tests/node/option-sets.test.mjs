// Locks that share one set of options. Each still has its own names, and each is checked separately.
import assert from "node:assert/strict";
import { configure, lock, Redlock } from "redlock-native";
import { refusal, uniqueName } from "./helper.mjs";
import { describe, test } from "./testing.mjs";

const client = new Redlock(`memory://${uniqueName()}`);

/** Names with characters that are special in the core or in the binding. */
const NAMES = {
  "of one character": "a",
  "with a hash tag": "{user:7}:cart",
  "with braces": "}{",
  "of other scripts": "заказ-7",
  "with emoji": "\u{1f512}".repeat(100),
  "of 255 bytes": "x".repeat(255),
  "of 256 bytes": "x".repeat(256),
  "of more bytes than characters": "é".repeat(130),
  "of 65,536 bytes": "x".repeat(65_536),
  "with a null character": "a\0b",
  "that ends as a fence": "a:fence",
};
/** Names that the core refuses, whatever was created with the same options before. */
const REFUSED = {
  empty: ["", "a name is empty"],
  "too long": ["x".repeat(65_537), "got 65537"],
  "too long in bytes alone": ["é".repeat(32_769), "got 65538"],
  "a fence": ["{a}:fence", "fencing tokens of another lock"],
  none: [[], "no name was given"],
  twice: [["a", "a"], "given twice"],
};

describe("locks with the same options share an option set", () => {
  test("with separate names", async () => {
    for (const [about, name] of Object.entries(NAMES)) {
      const first = client.lock(name);
      assert.deepEqual(
        [first.names, first.key, first.keys],
        [[name], `lock:${name}`, [`lock:${name}`]],
      );
      const lease = await first.acquire();
      assert.equal(lease.key, `lock:${name}`, about);
      const inspected = await client.lock(name).inspect();
      assert.equal(inspected.nodes[0].key, `lock:${name}`, about);
      assert.equal(await client.lock(name).tryAcquire(), null, about);
      const other = await client.lock(`${name.slice(0, 50)}-other`).acquire({ wait: 0 });
      const attached = await client.attach(name, lease.token);
      assert.equal(attached.key, `lock:${name}`, about);
      assert.equal(attached.detach(), true);
      await Promise.all([lease.release(), other.release()]);
      await client.lock([name, "b"]).using((both) => {
        assert.deepEqual(both.keys, [`lock:${name}`, "lock:b"]);
      });
    }
  });

  test("with checks for each name", async () => {
    configure(`memory://${uniqueName()}`, { replace: true });
    for (const made of [(names) => client.lock(names), (names) => lock(names)]) {
      made("usual");
      for (const [names, words] of Object.values(REFUSED)) {
        assert.throws(() => made(names), refusal([words]));
      }
    }
    const braces = new Redlock(`memory://${uniqueName()}`, { keyPrefix: "{a}" });
    braces.lock("usual");
    assert.throws(() => braces.lock(":fence"), refusal(["fencing tokens of another lock"]));
  });

  test("while other options use another set", async () => {
    const ttls = [1000, 2000, 1000, 3000];
    const leases = await Promise.all(
      ttls.map((ttl) => client.lock(uniqueName(), { ttl, renew: ttl !== 3000 }).acquire()),
    );
    assert.deepEqual(
      leases.map((lease) => lease.ttl),
      ttls,
    );
    const fenced = await client.lock("fenced", { fencing: true }).acquire();
    assert.equal(typeof fenced.fencingToken, "number");
    const plain = await client.lock("plain", { fencing: false }).acquire();
    assert.throws(() => plain.fencingToken, refusal(["no fencing token"]));
    await client.releaseAll();
  });

  test("with any number of sets", async () => {
    const locks = Array.from({ length: 500 }, (_, at) => client.lock("many", { wait: at }));
    for (const [at, each] of locks.entries()) assert.equal(each.toJSON().options.wait, at);
    await (await locks[0].acquire()).release();
    await (await locks[499].acquire()).release();
  });

  test("in one batch of calls", async () => {
    const names = Array.from({ length: 700 }, () => uniqueName());
    const leases = await Promise.all(names.map((name) => client.lock(name).acquire()));
    assert.deepEqual(
      leases.map((lease) => lease.key),
      names.map((name) => `lock:${name}`),
    );
    await Promise.all(leases.map((lease) => lease.release()));
  });

  test("of the current default client", async () => {
    const made = lock("job");
    configure(`memory://${uniqueName()}`, { replace: true, keyPrefix: "one:" });
    assert.equal(made.key, "one:job");
    assert.equal(lock("other").key, "one:other");
    configure(`memory://${uniqueName()}`, { replace: true, keyPrefix: "two:" });
    assert.deepEqual([made.key, lock("job").key], ["two:job", "two:job"]);
    assert.equal(await made.using((lease) => lease.key), "two:job");
  });
});
