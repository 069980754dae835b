// Rules that differ from other lock libraries. The table with that title in tests/README.md lists them with their
// tests.
import assert from "node:assert/strict";
import { configure, lock as lockOfDefaultClient, Redlock } from "redlock-native";
import { assertNotConnected, eventually, serverForSuite, uniqueName, waiting } from "./helper.mjs";
import { describe, test } from "./testing.mjs";

const shared = serverForSuite();
const NODE_URLS = { "memory://": () => "memory://", "redis://": () => shared.server.url };

test("creating a lock sends nothing, and only a lease can be released", async () => {
  const clientName = uniqueName();
  const lock = new Redlock(shared.server.url, { clientName }).lock(["a", "b"]);
  assert.equal(lock.key, "lock:a, lock:b");
  assert.deepEqual(lock.keys, ["lock:a", "lock:b"]);
  assert.throws(() => lock.release(), /lease\.release/);
  assert.equal(lock[Symbol.asyncDispose], undefined);
  await assertNotConnected(shared.server, clientName);
});

test("a lock created before configure uses the client configured later", async () => {
  const early = lockOfDefaultClient(uniqueName());
  configure("memory://", { keyPrefix: "later:" });
  const lease = await early.acquire();
  assert.match(lease.key, /^later:/);
  await lease.release();
});

for (const [kind, url] of Object.entries(NODE_URLS)) {
  describe(kind, () => {
    test("acquire({ wait }) overrides the wait of the lock", async () => {
      const redlock = new Redlock(url());
      const lock = redlock.lock(uniqueName(), { wait: 0 });
      const first = await lock.acquire();
      const second = lock.acquire({ wait: Number.POSITIVE_INFINITY });
      await waiting(redlock);
      await first.release();
      await (await second).release();
    });

    test("the end of a scope that lost its lease keeps the next holder's lock", async () => {
      const redlock = new Redlock(url());
      const name = uniqueName();
      const lock = redlock.lock(name);
      const { promise: left, resolve: leave } = deferred();
      const { promise: entered, resolve: enter } = deferred();
      const stale = lock.using(async (lease) => {
        await redlock.forceRelease(name);
        await eventually(() => assert.equal(lease.held, false));
        enter();
        await left;
      });
      const staleRejects = assert.rejects(stale, { kind: "lost", reason: "missing" });
      await entered;
      await lock.using(async (lease) => {
        leave();
        await staleRejects;
        assert.equal(lease.held, true);
        assert.equal((await lock.inspect()).held, true);
      });
      assert.equal((await lock.inspect()).held, false);
    });

    test("LockTimeout names the line of this client that acquired the lock", async () => {
      const lock = new Redlock(url()).lock(uniqueName(), { wait: 200 });
      async function theHolder() {
        return await lock.acquire();
      }
      const lease = await theHolder();
      await assert.rejects(lock.acquire(), (error) => {
        assert.equal(error.kind, "timeout");
        assert.match(error.message, /; this client holds it$/);
        assert.match(error.acquiredAt, /theHolder.*semantics\.test\.mjs:\d+/);
        return true;
      });
      await lease.release();
    });

    test("onLost of a lost lease calls the listener soon, but not synchronously", async () => {
      const redlock = new Redlock(url());
      const name = uniqueName();
      const lease = await redlock.lock(name).acquire();
      await redlock.forceRelease(name);
      await eventually(() => assert.equal(lease.held, false));
      const reasons = [];
      lease.onLost((error) => reasons.push(error.reason));
      assert.deepEqual(reasons, []);
      await eventually(() => assert.deepEqual(reasons, ["missing"]));
    });

    // The warning is logged once for each call site in a process, so this test cannot run for both kinds of nodes.
    if (kind !== "memory://") return;
    test("a lease held for long causes one warning with its call site", async (context) => {
      const warned = context.mock.method(process, "emitWarning", () => undefined);
      const redlock = new Redlock(url());
      const lease = await redlock.lock(uniqueName(), { ttl: 4500 }).acquire();
      // The TTL of renewals is 100 ms from now on, so ten TTLs end soon. The current validity stays at 4.5 s, so that a
      // busy machine does not lose the lease.
      await lease.extend(100);
      const texts = () => warned.mock.calls.map((call) => call.arguments[0].message);
      const mine = () => texts().filter((text) => text.includes(lease.key));
      await eventually(() => assert.equal(mine().length, 1, texts().join("\n")));
      // Each renewal checks whether it has been held for long.
      const { renewed } = redlock.stats();
      await eventually(() => assert.ok(redlock.stats().renewed >= renewed + 3));
      assert.equal(mine().length, 1, texts().join("\n"));
      assert.match(
        mine()[0],
        /held for more than ten times its TTL, acquired at .*semantics\.test/,
      );
      await lease.release();
    });
  });
}

function deferred() {
  let resolve;
  const promise = new Promise((done) => {
    resolve = done;
  });
  return { promise, resolve };
}
