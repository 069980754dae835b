// Scopes: using(), Symbol.asyncDispose, and how a loss is reported.
import assert from "node:assert/strict";
import { EventEmitter, once } from "node:events";
import { transformSync } from "esbuild";
import { LockLost, Redlock } from "redlock-native";
import { assertRefused, block, eventually, Server, serverForSuite, uniqueName } from "./helper.mjs";
import { describe, test } from "./testing.mjs";

const shared = serverForSuite();

const ENTER = `export default async (lease, body) => {
  await using entered = lease;
  await body(entered);
};`;
/** Runs the body in a scope of the lease, by `await using`, which Node.js 20 cannot parse. */
const { code } = transformSync(ENTER, { target: "es2022" });
const { default: enter } = await import(`data:text/javascript,${encodeURIComponent(code)}`);

/** Resolves when the signal aborts. */
const aborted = (signal) =>
  new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", resolve, { once: true });
  });

describe("using()", () => {
  const redlock = new Redlock("memory://");

  test("deletes the key if the lease is lost before the body runs", async () => {
    const observer = new Redlock("memory://lost-before-the-body");
    const client = new Redlock("memory://lost-before-the-body");
    const first = client.lock("first").acquire();
    // Both outcomes arrive together. The callback of the first one runs when the second lease exists.
    const closing = first.then((lease) => lease).then(() => client.close());
    const body = () => assert.fail("the lease was lost");
    await assert.rejects(client.lock("second").using(body), LockLost);
    await closing;
    assert.equal((await observer.lock("second").inspect()).held, false);
  });

  test("returns the result of the body and releases", async () => {
    const name = uniqueName();
    let seen;
    const result = await redlock.using(name, { ttl: 20_000 }, async (lease) => {
      seen = lease;
      assert.equal(lease.held, true);
      await assertRefused(redlock.lock(name));
      return 42;
    });
    assert.equal(result, 42);
    assert.equal(seen.held, false);
    await redlock.using(name, () => undefined);
  });

  test("rejects with the error of the body and releases", async () => {
    const name = uniqueName();
    const failure = new Error("body");
    const thrower = () => {
      throw failure;
    };
    await assert.rejects(redlock.using(name, thrower), (error) => error === failure);
    await (await redlock.lock(name).tryAcquire()).release();
  });

  test("accepts a body that released the lease", async () => {
    await redlock.using(uniqueName(), (lease) => lease.release());
  });

  test("does not run the body if the acquire fails", async () => {
    const name = uniqueName();
    const lease = await redlock.lock(name).acquire();
    let ran = false;
    const call = redlock.using(name, { wait: 0 }, () => {
      ran = true;
    });
    await assert.rejects(call, { kind: "timeout" });
    assert.equal(ran, false);
    await lease.release();
  });
});

describe("a loss", () => {
  test("aborts lease.signal with LockLost when the key is deleted", async () => {
    const { server } = shared;
    const lease = await new Redlock(server.url).lock(uniqueName(), { ttl: 600 }).acquire();
    const { signal } = lease;
    assert.equal(signal, lease.signal);
    assert.equal(signal.aborted, false);
    const told = [];
    lease.onLost((error) => told.push(error));
    await server.cli("DEL", lease.key);
    await aborted(signal);
    assert.ok(signal.reason instanceof LockLost);
    assert.equal(signal.reason.reason, "missing");
    assert.equal(signal.reason.resource, lease.key);
    assert.equal(lease.held, false);
    assert.deepEqual(told, [signal.reason]);
    lease.onLost((error) => told.push(error));
    await undefined;
    assert.equal(told.length, 2);
    assert.equal(await server.cli("EXISTS", lease.key), "0");
  });

  test("aborts a signal that is first read after the loss", async () => {
    const lock = new Redlock("memory://").lock(uniqueName(), { ttl: 100, renew: false });
    const lease = await lock.acquire();
    await eventually(() => assert.equal(lease.held, false));
    assert.equal(lease.signal.aborted, true);
    assert.equal(lease.signal.reason.reason, "expired");
  });

  test("is not reported for a release in progress", async () => {
    const lease = await new Redlock("memory://").lock(uniqueName()).acquire();
    const releasing = lease.release();
    block(50);
    assert.equal(lease.held, false);
    assert.equal(lease.signal.aborted, false);
    await releasing;
    assert.equal(lease.signal.aborted, false);
  });

  test("aborts at the end of the validity if the server is unreachable", async () => {
    const server = await Server.start();
    const lease = await new Redlock(server.url).lock(uniqueName(), { ttl: 800 }).acquire();
    await server.stop();
    await aborted(lease.signal);
    assert.equal(lease.signal.reason.kind, "lost");
    assert.equal(lease.held, false);
  });

  test("makes using() reject with LockLost if the body succeeded", async () => {
    const { server } = shared;
    const redlock = new Redlock(server.url);
    const body = async ({ key, signal }) => {
      await server.cli("DEL", key);
      await aborted(signal);
      return "done";
    };
    await assert.rejects(redlock.using(uniqueName(), { ttl: 600 }, body), {
      kind: "lost",
      reason: "missing",
    });
  });

  test("does not replace the error of the body", async () => {
    const { server } = shared;
    const redlock = new Redlock(server.url);
    const failure = new Error("body");
    const fails = async ({ key, signal }) => {
      await server.cli("DEL", key);
      await aborted(signal);
      throw failure;
    };
    await assert.rejects(
      redlock.using(uniqueName(), { ttl: 600 }, fails),
      (error) => error === failure,
    );
    const passes = async ({ key, signal }) => {
      await server.cli("DEL", key);
      await once(new EventEmitter(), "never", { signal });
    };
    // This one follows from the loss (lost-abort.test.mjs).
    await assert.rejects(redlock.using(uniqueName(), { ttl: 600 }, passes), (error) => {
      assert.deepEqual([error.kind, error.cause.name], ["lost", "AbortError"]);
      return true;
    });
  });
});

describe("Symbol.asyncDispose", () => {
  test("releases a lease", async () => {
    const redlock = new Redlock("memory://");
    const lock = redlock.lock(uniqueName());
    const lease = await lock.acquire();
    await lease[Symbol.asyncDispose]();
    assert.equal(lease.held, false);
    await (await lock.tryAcquire()).release();
  });

  test("rejects with LockLost for a lost lease", async () => {
    const redlock = new Redlock("memory://");
    const name = uniqueName();
    const lease = await redlock.lock(name).acquire();
    const dispose = lease[Symbol.asyncDispose];
    await redlock.forceRelease(name);
    await assert.rejects(dispose(), { kind: "lost" });
  });

  const KNOWN = {
    // The node has deleted the key. The notification is in flight.
    ensureHeld: (lease) =>
      eventually(() => assert.throws(() => lease.ensureHeld(), { kind: "lost" })),
    extend: (lease) => assert.rejects(lease.extend(), { kind: "lost" }),
    release: (lease) => assert.rejects(lease.release(), { kind: "lost" }),
  };
  for (const [verb, fails] of Object.entries(KNOWN)) {
    test(`does not repeat a loss that ${verb} threw, unlike using()`, async () => {
      const redlock = new Redlock("memory://");
      const name = uniqueName();
      const lease = await redlock.lock(name).acquire();
      const dispose = lease[Symbol.asyncDispose];
      await redlock.forceRelease(name);
      await fails(lease);
      await dispose();
      assert.equal(lease.held, false);
      const body = async (held) => {
        await redlock.forceRelease(name);
        // The notification comes first. If a release finds the key missing, that is the end that the body wanted.
        await eventually(() => assert.equal(held.held, false));
        await fails(held);
      };
      await assert.rejects(redlock.using(name, body), { kind: "lost" });
    });
  }

  test("does nothing for a released lease after ensureHeld", async () => {
    const lease = await new Redlock("memory://").lock(uniqueName()).acquire();
    const dispose = lease[Symbol.asyncDispose];
    await lease.release();
    assert.throws(() => lease.ensureHeld(), { kind: "released", reason: undefined });
    await dispose();
    await dispose();
  });

  test("await using of an ended lease does not run the body", async () => {
    const redlock = new Redlock("memory://");
    const name = uniqueName();
    const ended = {
      released: (lease) => lease.release(),
      detached: (lease) => lease.detach(),
      lost: () => redlock.forceRelease(name),
    };
    for (const [way, end] of Object.entries(ended)) {
      const lease = await redlock.lock(name).acquire();
      await end(lease);
      await eventually(() => assert.equal(lease.held, false));
      const body = () => assert.fail(`the body of a lease that was ${way} ran`);
      const expected = way === "lost" ? "LockLost" : "LockReleased";
      await assert.rejects(enter(lease, body), { name: expected });
      await redlock.forceRelease(name);
    }
  });

  test("await using in a second scope is rejected and keeps the outer scope", async () => {
    const redlock = new Redlock("memory://");
    const refused = async (lease) => {
      const inner = enter(lease, () => assert.fail("entered again"));
      await assert.rejects(inner, { name: "InvalidOption", message: /already in a scope/ });
      assert.equal(lease.held, true);
      return lease;
    };
    const lease = await redlock.lock(uniqueName()).acquire();
    await enter(lease, refused);
    assert.equal(lease.held, false);
    assert.equal((await redlock.using(uniqueName(), refused)).held, false);
    assert.equal((await redlock.lock(uniqueName()).using(refused)).held, false);
  });

  test("warns if the server is unreachable, where release() rejects", async (context) => {
    const server = await Server.start();
    const redlock = new Redlock(server.url);
    const explicit = await redlock.lock(uniqueName(), { ttl: 5000 }).acquire();
    const scoped = await redlock.lock(uniqueName(), { ttl: 5000 }).acquire();
    await server.stop();
    await assert.rejects(explicit.release(), { kind: "unavailable" });
    const warned = context.mock.method(process, "emitWarning", () => undefined);
    await scoped[Symbol.asyncDispose]();
    const [{ message: text, code }] = warned.mock.calls.at(-1).arguments;
    assert.ok(text.includes(scoped.key));
    assert.equal(code, "REDLOCK");
  });

  test("shuts a client down", async () => {
    const redlock = new Redlock("memory://");
    await redlock[Symbol.asyncDispose]();
    await assert.rejects(redlock.lock(uniqueName()).acquire(), { kind: "closed" });
  });
});
