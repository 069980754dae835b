// The printed form of errors and objects: the caller's line, the code, the cause, and no secret.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { inspect, promisify } from "node:util";
import * as redlock from "redlock-native";
import { eventually, freePort, Server, uniqueName } from "./helper.mjs";
import { describe, test } from "./testing.mjs";

const { configure, lock, Redlock, withLock } = redlock;
const run = promisify(execFile);
const library = fileURLToPath(new URL("../../bindings-node/dist/", import.meta.url));
const client = new Redlock(`memory://${uniqueName()}`);

test("each export has the name under which it is exported", () => {
  const named = Object.entries(redlock).filter(([, value]) => typeof value === "function");
  assert.ok(named.length > 10);
  for (const [name, { name: own }] of named) assert.equal(own, name);
  assert.equal(client.constructor.name, "Redlock");
  assert.equal(client.lock("a").constructor.name, "Lock");
});

describe("errors", () => {
  test("have a kind and a code in Node.js style", () => {
    const classes = Object.values(redlock).filter((value) => value.prototype instanceof Error);
    const codes = classes.map((Class) => {
      const { code, kind } = new Class("text");
      assert.equal(code, `ERR_REDLOCK_${kind.toUpperCase()}`);
      return code;
    });
    assert.equal(new Set(codes).size, 8);
    assert.ok(inspect(new redlock.LockLost("text")).includes("code: 'ERR_REDLOCK_LOST'"));
  });

  test("have the errors of the failed nodes as their cause", async () => {
    const ports = [await freePort(), await freePort()];
    const urls = ports.map((port) => `redis://user:s3cret@127.0.0.1:${port}`);
    const ask = (nodes) =>
      new Redlock(nodes, { restartGuard: 0 }).lock(uniqueName(), { wait: 0, ttl: 1000 });
    await assert.rejects(ask(urls[0]).acquire(), ({ cause, nodes }) => {
      assert.ok(cause instanceof Error);
      assert.equal(cause.message, `${nodes[0].url}: ${nodes[0].error}`);
      return true;
    });
    await assert.rejects(ask([...urls, "memory://"]).acquire(), (error) => {
      const { errors } = error.cause;
      assert.deepEqual([error.cause.constructor, errors.length], [AggregateError, 2]);
      for (const [at, port] of ports.entries())
        assert.match(errors[at].message, new RegExp(`:${port}`));
      assert.ok(!inspect(error, { depth: null }).includes("s3cret"));
      return true;
    });
    const lease = await client.lock("taken").acquire();
    const refused = client.lock("taken", { wait: 0 }).acquire();
    await assert.rejects(refused, (error) => !("cause" in error));
    await lease.release();
  });

  describe("contain no node address in their message:", () => {
    /** The native text is the whole message. The address is in a property, and in the printed error. */
    const without = (error, port, words) => {
      assert.match(error.message, words);
      for (const text of [error.message, error.stack, `${error}`, JSON.stringify(error.message)]) {
        assert.ok(!text.includes(port) && !text.includes("127.0.0.1"), text);
      }
      const { state } = error.nodes.find(({ url }) => url.includes(port));
      // The first failure may decide the result before the other node has replied.
      const waited = state === "pending" || error.cause.errors?.length > 1;
      assert.ok(waited || error.cause.message.includes(port), inspect(error));
      assert.ok(inspect(error).includes(port));
    };

    test("for failed nodes", async () => {
      const [one, two] = [`${await freePort()}`, `${await freePort()}`];
      const nodes = [one, two].map((port) => `redis://127.0.0.1:${port}`);
      // A key that is shortened in messages, and one that resembles the rest of a message.
      for (const [name, key] of [
        ["job", "job"],
        ["n".repeat(500), "n+…"],
        ["1 of 1 nodes failed; x", ""],
      ]) {
        const words = new RegExp(`^lock:${key}.* of \\d nodes failed; node 1: .*(refused|answer)`);
        const client = new Redlock(nodes, { restartGuard: 0 });
        const failed = await client
          .lock(name, { wait: 0 })
          .acquire()
          .catch((error) => error);
        without(failed, one, words);
        without(failed, two, words);
        const attached = await client
          .lock(name, { wait: 0 })
          .attach("token")
          .catch((error) => error);
        without(attached, one, words);
      }
    });

    test("for a node that rejects the options", async () => {
      const server = await Server.start();
      try {
        const port = `${server.port}`;
        for (const name of [uniqueName(), "n".repeat(500)]) {
          await server.cli("LPUSH", `lock:${name}`, "data");
          const failed = await new Redlock(server.url)
            .lock(name)
            .acquire()
            .catch((error) => error);
          assert.equal(failed.kind, "unsupported");
          without(failed, port, /^lock:\S+: a node cannot be used: .*keyPrefix/);
        }
        const twice = [server.url, server.url.replace("127.0.0.1", "localhost")];
        const client = new Redlock(twice, { restartGuard: 0 });
        // Whichever of the two is second.
        const failed = await eventually(async () => {
          const found = await client
            .lock(uniqueName(), { wait: 0 })
            .acquire()
            .catch((error) => error);
          assert.equal(found.kind, "invalid");
          return found;
        });
        without(failed, port, /^lock:\S+: a node cannot be used: .*the same server as \(address\)/);
      } finally {
        await server.stop();
      }
    });
  });

  const WAYS = {
    "lock()": async () => client.lock("a", { ttl: 1 }),
    "lock() of the module": async () => lock("a", { tll: 1 }),
    "new Redlock()": async () => new Redlock("nonsense://"),
    "configure()": async () => configure("memory://", { nodeTimeout: 0 }),
    acquire: async (held) => await client.lock(held, { wait: 0 }).acquire(),
    "lock.using": async (held) => await client.lock(held, { wait: 0 }).using(() => 1),
    "client.using": async (held) => await client.using(held, { wait: 0 }, () => 1),
    "using without a body": async () => await client.using("a", {}),
    attach: async (held) => await client.attach(held, "token"),
    extend: async (_, lease) => await lease.extend(5),
    "shutdown()": async () => await client.shutdown(-1),
  };
  for (const [way, use] of Object.entries(WAYS)) {
    test(`of ${way} show the program's line at the top of the stack`, async () => {
      const lease = await client.lock(uniqueName()).acquire();
      const error = await use(lease.key.slice("lock:".length), lease).catch((thrown) => thrown);
      await lease.release();
      assert.ok(error instanceof redlock.LockError, inspect(error));
      const [header, ...frames] = error.stack.split("\n");
      assert.equal(header, `${error.name}: ${error.message}`);
      assert.match(frames[0], /formatting\.test\.mjs/);
      assert.ok(
        !frames.some((frame) => frame.includes(library) && frame === frames[0]),
        error.stack,
      );
      assert.ok(frames.length <= Error.stackTraceLimit);
    });
  }

  test("of a loss without a line of the program keep their stack", async () => {
    const name = uniqueName();
    const lease = await client.lock(name).acquire();
    const alive = setInterval(() => undefined, 1000);
    const told = new Promise((resolve) => lease.onLost(resolve));
    await client.forceRelease(name);
    const [header, ...frames] = (await told).stack.split("\n");
    clearInterval(alive);
    assert.match(header, /^LockLost: /);
    assert.ok(frames.length > 1);
  });

  test("show only the properties that have a value", () => {
    const error = new redlock.InvalidOption("text", { resource: "lock:job" });
    assert.deepEqual(Object.keys(error).sort(), ["code", "kind", "resource"]);
    assert.deepEqual([error.waited, error.reason, error.nodes], [undefined, undefined, []]);
    assert.ok("waited" in error && !inspect(error).includes("undefined"));
  });

  test("keep a stack that is read late, replaced, limited or cloned", () => {
    const error = (function theCaller() {
      return new redlock.LockTimeout("text");
    })();
    error.message = "changed later";
    assert.match(error.stack, /^LockTimeout: .*\n {4}at theCaller/);
    const copy = structuredClone(error);
    assert.match(copy.stack, /theCaller/);
    error.stack = "mine";
    assert.deepEqual([error.stack, Object.keys(error).includes("stack")], ["mine", false]);
    const { stackTraceLimit } = Error;
    Error.stackTraceLimit = 1;
    const short = new redlock.LockTimeout("text");
    Error.stackTraceLimit = 0;
    const none = new redlock.LockTimeout("text");
    Error.stackTraceLimit = stackTraceLimit;
    assert.equal(short.stack.split("\n").length, 2);
    assert.equal(none.stack, "LockTimeout: text");
    assert.equal(Error.stackTraceLimit, stackTraceLimit);
    const { prepareStackTrace } = Error;
    Error.prepareStackTrace = (_, sites) => sites;
    assert.ok(Array.isArray(new redlock.LockTimeout("text").stack));
    Error.prepareStackTrace = prepareStackTrace;
  });
});

describe("the line of the acquire in errors", () => {
  const hold = async (acquiring, first) => {
    const lease = await acquiring;
    first?.detach();
    return lease;
  };
  // Each on a separate line, in a function with a unique name.
  const WAYS = {
    async acquire(name) {
      return hold(client.lock(name).acquire());
    },
    async tryAcquire(name) {
      return hold(client.lock(name).tryAcquire());
    },
    async lockAttach(name) {
      const first = await client.lock(name).acquire();
      return hold(client.lock(name).attach(first.token), first);
    },
    async clientAttach(name) {
      const first = await client.lock(name).acquire();
      const attaching = client.attach(name, first.token);
      return hold(attaching, first);
    },
  };
  const BODIES = {
    lockUsing: (name, body) => client.lock(name).using(body),
    clientUsing: (name, body) => client.using(name, body),
    clientUsingOptions: (name, body) => client.using(name, { ttl: 5000 }, body),
    moduleWithLock: (name, body) => withLock(name, body),
  };
  // The line of a lease is known soon after its acquire.
  const named = async (of, name, function_) => {
    await eventually(() =>
      assert.rejects(of.lock(name).acquire({ wait: 0 }), (error) => {
        const { message, acquiredAt: line } = error;
        assert.ok(line?.includes(function_) && line.includes("formatting.test.mjs:"), line);
        // A framework may send the message to a client, and a program logs the whole error.
        assert.match(message, /; this client holds it$/);
        assert.ok(!message.includes("formatting.test"), message);
        assert.ok(inspect(error).includes(`acquiredAt: '${line}'`), inspect(error));
        return true;
      }),
    );
  };
  for (const [way, acquire] of Object.entries(WAYS)) {
    test(`is the program's line for ${way}`, async () => {
      const name = uniqueName();
      const lease = await acquire(name);
      await named(client, name, way);
      await lease.release();
    });
  }
  for (const [way, run] of Object.entries(BODIES)) {
    test(`is the program's line for ${way}`, async () => {
      const name = uniqueName();
      if (way === "moduleWithLock") configure("memory://", { replace: true });
      await run(name, async () => {
        await named(way === "moduleWithLock" ? { lock } : client, name, way);
      });
    });
  }
});

describe("util.inspect and toJSON", () => {
  const url = "redis://user:s3cret@127.0.0.1:1/2?password=s3cret2";
  const credentials = () => "s3cret";

  test("show the nodes and options of a client without passwords", () => {
    const given = { keyPrefix: "app:", credentials };
    const made = new Redlock("redis://127.0.0.1:1/2", given);
    const other = new Redlock("redis://user:s3cret@127.0.0.1:1/2");
    assert.ok(!(inspect(other) + JSON.stringify(other)).includes("s3cret"));
    assert.deepEqual(JSON.parse(JSON.stringify(made)), {
      nodes: ["redis://127.0.0.1:1/2"],
      options: { keyPrefix: "app:" },
    });
    const shown = inspect(made);
    assert.match(shown, /^Redlock \{.*nodes:.*'redis:\/\/127\.0\.0\.1:1\/2'.*keyPrefix: 'app:'/s);
    assert.ok(!shown.includes("s3cret"));
    assert.throws(
      () => new Redlock(url),
      (error) => !inspect(error).includes("s3cret"),
    );
  });

  test("show the key and options of a lock", () => {
    const described = client.lock(["{a}:1", "{a}:2"], { ttl: 5000, wait: 0 });
    const facts = {
      names: ["{a}:1", "{a}:2"],
      key: described.key,
      options: { ttl: 5000, wait: 0 },
    };
    assert.deepEqual(JSON.parse(JSON.stringify(described)), facts);
    assert.match(inspect(described), /^Lock \{.*key: 'lock:\{a\}:1, lock:\{a\}:2'.*ttl: 5000/s);
  });

  test("do not choose the default client for its locks", async () => {
    const program = `
      const { configure, lock } = require("redlock-native");
      const { inspect } = require("node:util");
      const job = lock("job", { ttl: 500 });
      console.log(inspect(job), JSON.stringify(job));
      configure("memory://", { keyPrefix: "later:" });
      job.key;
      console.log(JSON.stringify(job));
    `;
    const { stdout } = await run(process.execPath, ["-e", program], { cwd: library });
    const before = `Lock { names: [ 'job' ], options: { ttl: 500 } } {"names":["job"],"options":{"ttl":500}}`;
    const after = `{"names":["job"],"key":"later:job","options":{"ttl":500}}`;
    assert.equal(stdout, `${before}\n${after}\n`);
  });

  test("show key, held, remaining and ttl of a lease, but not its token", async () => {
    const lease = await client.lock(uniqueName(), { ttl: 5000 }).acquire();
    const { key, held, remaining, ttl, ...more } = JSON.parse(JSON.stringify(lease));
    assert.deepEqual([key, held, ttl, more], [lease.key, true, 5000, {}]);
    assert.ok(remaining > 1000 && remaining <= 5000);
    const shown = inspect({ deep: { lease } });
    assert.match(shown, /Lease \{.*held: true.*remaining: \d+.*ttl: 5000/s);
    assert.ok(!shown.includes(lease.token));
    await lease.release();
    assert.match(inspect(lease), /held: false, remaining: 0/);
    assert.match(inspect({ a: { b: { c: { lease } } } }), /\[Object\]/);
    assert.match(inspect({ a: { b: { lease } } }, { depth: 1 }), /\[Object\]/);
    assert.match(inspect({ lease }, { depth: 0 }), /lease: \[Lease\]/);
  });

  test("never throw for other objects", () => {
    for (const { prototype } of [redlock.Lease, redlock.Lock, Redlock]) {
      assert.equal(typeof inspect(prototype), "string");
      assert.equal(typeof inspect(Object.create(prototype)), "string");
      assert.equal(typeof inspect(new Proxy(client, {})), "string");
    }
  });
});
