// Options of other libraries, wrong types, and misplaced values: tests/vectors/arguments.toml.
import assert from "node:assert/strict";
import { inspect } from "node:util";
import { configure, lock, Redlock, withLock } from "redlock-native";
import { camel, refusal, silentNodesForSuite, table, uniqueName } from "./helper.mjs";
import { describe, test } from "./testing.mjs";

const silent = silentNodesForSuite(1);
const rows = table("arguments");
const client = () => new Redlock(`redis://127.0.0.1:${silent.ports[0]}`);
const held = () => new Redlock("memory://").lock(uniqueName()).acquire();
const body = () => assert.fail("the body must not run");

/**
 * For each call of a row: the function, its arguments before the options, and whether it rejects rather than throws.
 */
const CALLS = {
  client: { calls: [(...args) => new Redlock(...args)], needed: ["memory://"] },
  configure: { calls: [configure], needed: ["memory://"] },
  lock: { calls: [(...args) => client().lock(...args), lock], needed: ["job"] },
  acquire: {
    calls: [
      (...args) =>
        client()
          .lock("job")
          .acquire(...args),
      (options) => client().lock("job").using(options, body),
    ],
    needed: [],
    rejects: true,
  },
  on_lost: { calls: [async (callback) => (await held()).onLost(callback)], rejects: true },
  force_release: { calls: [(...args) => client().forceRelease(...args)], rejects: true },
  "client.acquire": { calls: [(...args) => client().acquire(...args)] },
  "client.using": {
    calls: [
      (...args) => client().using(...args, body),
      (...args) => client().using(...args, { retryCount: 0 }, body),
      (...args) => withLock(...args, body),
    ],
    rejects: true,
  },
};

async function refused(call, args, says, never) {
  const { calls, rejects } = CALLS[call];
  for (const use of calls) {
    const matches = refusal(says, never);
    if (rejects) await assert.rejects(async () => use(...args), matches);
    else assert.throws(() => use(...args), matches);
  }
}

describe("unknown options are rejected with a replacement:", () => {
  for (const { library, call, options, node } of rows.foreign) {
    if (node) continue;
    for (const { name, value, says, never } of options) {
      test(`${call} rejects ${name} of ${library}`, async () => {
        const args = [...CALLS[call].needed, { [name]: value }];
        await refused(call, args, [name, ...says.map(camel)], never);
      });
    }
  }
});

describe("options of a wrong type are rejected:", () => {
  for (const { call, options, wrong, says } of rows.type) {
    for (const option of options) {
      test(`${option} of ${call}`, async () => {
        for (const value of [...wrong, null, () => 1]) {
          const args = [...CALLS[call].needed, { [camel(option)]: value }];
          await refused(call, args, [`${camel(option)} must be `, ...says]);
        }
      });
    }
  }
});

describe("misplaced values are rejected:", () => {
  for (const { about, call, args, says, never } of rows.argument) {
    test(about, () => refused(call, args, says.map(camel), never));
  }

  test("options must be an object", () => {
    for (const options of [[1000], null, "10s", () => 1]) {
      assert.throws(() => client().lock("job", options), refusal(["options must be an object"]));
    }
  });

  test("a URL object is a node, alone and in a list, and its secrets are hidden", async () => {
    const url = new URL("redis://user:s3cret%40@127.0.0.1:1/2");
    // That of a test runner's sandbox is of another class.
    const sandboxed = { [Symbol.toStringTag]: "URL", href: url.href };
    for (const nodes of [url, [url], [sandboxed]]) {
      const made = new Redlock(nodes);
      assert.deepEqual(made.nodes, ["redis://127.0.0.1:1/2"]);
      const failed = await made
        .lock("job", { wait: 0 })
        .acquire()
        .catch((error) => error);
      assert.ok(!inspect([made, failed], { depth: null }).includes("s3cret"), inspect(failed));
    }
    configure(new URL("memory://of-a-url"), { replace: true, keyPrefix: "url:" });
    await withLock("job", (lease) => assert.equal(lease.key, "url:job"));
    configure("memory://", { replace: true });
    for (const wrong of ["http://:s3cret@host", "redis://:s3cret@host/a-database"]) {
      assert.throws(() => new Redlock(new URL(wrong)), refusal([], ["s3cret"]));
      assert.throws(() => configure([new URL(wrong)]), refusal([], ["s3cret"]));
    }
    for (const wrong of [{ href: "redis://:s3cret@a" }, new (class URL {})()]) {
      assert.throws(() => new Redlock(wrong), refusal(["a URL such as redis://"], ["s3cret"]));
    }
  });

  test("a client object in place of a URL is rejected without showing it", () => {
    class Redis {
      options = { password: "secret" };
      toString = () => "secret";
    }
    const words = ["a URL such as redis://", "got an object of class Redis"];
    words.push("use Redlock.fromClient()");
    for (const nodes of [new Redis(), [new Redis()]]) {
      assert.throws(() => new Redlock(nodes), refusal(words, ["secret"]));
    }
  });

  test("a fraction of a millisecond is rejected", () => {
    assert.throws(
      () => client().lock("job", { ttl: 0.5 }),
      refusal(["must be a number of milliseconds", "got 0.5"]),
    );
  });

  test("a BigInt is rejected and shown as a BigInt", async () => {
    const words = ["ttl must be a number", "got 5000n, a BigInt"];
    assert.throws(() => client().lock("job", { ttl: 5000n }), refusal(words));
  });

  test("objects without option properties are rejected", async () => {
    const lists = [
      new Map([["ttl", 5000]]),
      new Set(),
      new URLSearchParams("ttl=5000"),
      new Date(),
    ];
    for (const given of [...lists, Promise.resolve({ ttl: 5000 }), new Number(5000)]) {
      const words = refusal([`an object of class ${given.constructor.name}`, "a plain object"]);
      assert.throws(() => client().lock("job", given), words);
      assert.throws(() => lock("job", given), words);
      assert.throws(() => new Redlock("memory://", given), words);
      await assert.rejects(client().lock("job").acquire(given), words);
      await assert.rejects(client().using("job", given, body), words);
    }
  });

  test("a signal must be an AbortSignal", async () => {
    const words = refusal(["signal must be an AbortSignal"]);
    await assert.rejects(client().lock("job").acquire({ signal: {} }), words);
  });

  test("using needs a function", async () => {
    for (const args of [["a"], ["a", {}], ["a", { ttl: 1000 }, 5]]) {
      await assert.rejects(client().using(...args), refusal(["using()", "function to run"]));
      await assert.rejects(withLock(...args), refusal(["withLock()", "function to run"]));
    }
  });
});

describe("misplaced signals and options are rejected before anything is sent:", () => {
  const { signal } = new AbortController();
  const text = "Pass a signal as { signal } to acquire, tryAcquire, using or withLock";
  const CALLS = {
    "lock()": () => lock("job", { signal }),
    "client.lock()": () => client().lock("job", { ttl: 1000, signal }),
    "a signal as the options of a lock": () => client().lock("job", signal),
    "a signal as the options of acquire": () => client().lock("job").acquire(signal),
    "a signal as the options of tryAcquire": () => client().lock("job").tryAcquire(signal),
    "a signal as the options of client.using": () => client().using("job", signal, body),
    "a signal as the options of lock.using": () => client().lock("job").using(signal, body),
    "new Redlock()": () => new Redlock("memory://", { signal }),
    "configure()": () => configure("memory://", { signal }),
    "client.attach()": () => client().attach("job", "token", { signal }),
    "lock.attach()": () => client().lock("job").attach("token", { signal }),
    "lock.inspect()": () => client().lock("job").inspect(signal),
    "client.forceRelease()": () => client().forceRelease("job", { signal }),
    "client.releaseAll()": () => client().releaseAll({ signal }),
    "client.shutdown()": () => client().shutdown(10, { signal }),
  };
  for (const [name, use] of Object.entries(CALLS)) {
    test(name, () => assert.rejects(async () => use(), refusal([text])));
  }

  test("release() and extend() reject a signal and keep the lease", async () => {
    const lease = await new Redlock("memory://").lock(uniqueName()).acquire();
    for (const use of [() => lease.release({ signal }), () => lease.extend(1000, signal)]) {
      await assert.rejects(use, refusal([text]));
    }
    assert.equal(lease.held, true);
    await lease.release();
  });

  test("tryAcquire rejects an option that it does not have", async () => {
    const words = refusal(["tryAcquire()", "wait", "Valid options: signal"]);
    await assert.rejects(client().lock("job").tryAcquire({ wait: 5 }), words);
  });

  test("options after the body are rejected", async () => {
    for (const use of [(...args) => client().using(...args), withLock]) {
      await assert.rejects(
        () => use("job", body, { wait: 0 }),
        refusal(["options must come before the function"]),
      );
      await assert.rejects(() => use(undefined, body), refusal(["the name must be"]));
      await assert.rejects(() => use(undefined), refusal(["the last argument must be"]));
    }
    const use = (...args) =>
      client()
        .lock("job")
        .using(...args);
    await assert.rejects(use(undefined), refusal(["using()", "the last argument must be"]));
    await assert.rejects(
      use(body, { wait: 0 }),
      refusal(["options must come before the function"]),
    );
  });
});

test("calculated times are rounded to milliseconds", async () => {
  const redlock = new Redlock(`memory://${uniqueName()}`, { nodeTimeout: 0.57 * 1000 });
  assert.equal(redlock.toJSON().options.nodeTimeout, 570);
  const described = redlock.lock(uniqueName(), {
    ttl: 1.1 * 1000,
    wait: 10_000 / 3,
    maxHold: 1e7 / 3,
  });
  assert.deepEqual(described.toJSON().options, { ttl: 1100, wait: 3333, maxHold: 3_333_333 });
  const lease = await described.acquire({ wait: 0.07 * 1000 });
  assert.equal(lease.ttl, 1100);
  await lease.extend(10_000 / 3);
  assert.equal(lease.ttl, 3333);
  assert.equal(await redlock.shutdown(0.57 * 1000 - 569), 1);
});

test("calling a class without new names the class", () => {
  assert.throws(() => Redlock("memory://"), {
    message: "Class constructor Redlock cannot be invoked without 'new'",
  });
});

test("methods of a lease on a lock name the lease", async () => {
  const lock = new Redlock("memory://").lock("job");
  const awaited = await lock;
  for (const name of ["release", "extend"]) {
    assert.throws(() => awaited[name](), refusal([`lease.${name}()`, "await lock.acquire()"]));
  }
});
