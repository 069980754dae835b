// Rules that surprise users of other libraries. tests/README.md lists the tests.
import assert from "node:assert/strict";
import { setImmediate as nextTurn } from "node:timers/promises";
import { configure, lock, Redlock } from "redlock-native";
import {
  assertNotConnected,
  assertRefused,
  eventually,
  fresh,
  serverForSuite,
  waiting,
} from "./helper.mjs";
import { describe, test } from "./testing.mjs";

const shared = serverForSuite();
const kinds = { "memory://": () => "memory://", "redis://": () => shared.server.url };

test("creating a lock sends nothing, and only a lease can be released", async () => {
  const clientName = fresh();
  const described = new Redlock(shared.server.url, { clientName }).lock(["a", "b"]);
  assert.equal(described.key, "lock:a, lock:b");
  assert.deepEqual(described.keys, ["lock:a", "lock:b"]);
  assert.throws(() => described.release(), /lease\.release/);
  assert.equal(described[Symbol.asyncDispose], undefined);
  await assertNotConnected(shared.server, clientName);
});

test("a lock created before configure uses the client configured later", async () => {
  const early = lock(fresh());
  configure("memory://", { keyPrefix: "later:" });
  const lease = await early.acquire();
  assert.match(lease.key, /^later:/);
  await lease.release();
});

for (const [kind, url] of Object.entries(kinds)) {
  describe(kind, () => {
    test("many callers can use one Lock at once", async () => {
      const described = new Redlock(url()).lock(fresh());
      let [inside, most, entered] = [0, 0, 0];
      const work = () =>
        described.using(async () => {
          inside += 1;
          most = Math.max(most, inside);
          entered += 1;
          await nextTurn();
          inside -= 1;
        });
      await Promise.all(Array.from({ length: 20 }, work));
      assert.equal(most, 1, `two holders: ${most} bodies ran at once`);
      assert.equal(entered, 20);
    });

    test("the end of an expired holder's scope keeps the next holder's lock", async () => {
      const redlock = new Redlock(url());
      const name = fresh();
      const described = redlock.lock(name);
      const { promise: left, resolve: leave } = deferred();
      const { promise: entered, resolve: enter } = deferred();
      const stale = described.using(async (lease) => {
        await redlock.forceRelease(name);
        await eventually(() => assert.equal(lease.held, false));
        enter();
        await left;
      });
      const staleEnds = assert.rejects(stale, { kind: "lost", reason: "missing" });
      await entered;
      await described.using(async (lease) => {
        leave();
        await staleEnds;
        assert.equal(lease.held, true);
        assert.equal((await described.inspect()).held, true);
      });
      assert.equal((await described.inspect()).held, false);
    });

    test("LockTimeout shows the line of this client that holds the lock", async () => {
      const described = new Redlock(url()).lock(fresh(), { wait: 200 });
      async function theHolder() {
        return await described.acquire();
      }
      const lease = await theHolder();
      await assert.rejects(described.acquire(), (error) => {
        assert.equal(error.kind, "timeout");
        const named = /this client holds it, acquired at .*semantics\.test\.mjs:\d+/;
        assert.match(error.message, named);
        assert.match(error.message, /theHolder/);
        return true;
      });
      await lease.release();
    });

    test("extend sets the ttl of later renewals", async () => {
      const lease = await new Redlock(url()).lock(fresh(), { ttl: 2000 }).acquire();
      await lease.extend(6000);
      // A renewal lengthens it by more than the TTL of the acquire could.
      let least = lease.remaining;
      await eventually(() => {
        const { remaining } = lease;
        least = Math.min(least, remaining);
        assert.ok(remaining > least && remaining > 2000, `${remaining} ms`);
      });
      await lease.release();
    });

    test("a second release does nothing, but after a loss each release rejects", async () => {
      const redlock = new Redlock(url());
      const name = fresh();
      const first = await redlock.lock(name).acquire();
      await first.release();
      const second = await redlock.lock(name).acquire();
      await first.release();
      assert.equal((await redlock.lock(name).inspect()).held, true);
      await redlock.forceRelease(name);
      await eventually(() => assert.equal(second.held, false));
      for (let turn = 0; turn < 2; turn++) {
        await assert.rejects(second.release(), { kind: "lost", reason: "missing" });
      }
    });

    test("tryAcquire does not overtake a waiter of this process", async () => {
      const redlock = new Redlock(url());
      const [free, taken] = [fresh(), fresh()];
      const held = await redlock.lock(taken).acquire();
      const first = redlock.lock([free, taken]).acquire();
      const described = redlock.lock(taken);
      await waiting(redlock);
      // The other name that the waiter wants is free for others, once the waiter was refused.
      const other = await eventually(async () => {
        const lease = await redlock.lock(free).tryAcquire();
        assert.ok(lease);
        return lease;
      });
      await other.release();
      await assertRefused(described);
      await assert.rejects(described.acquire({ wait: 0 }), {
        kind: "timeout",
        message: /other callers in this process were first/,
      });
      await held.release();
      await (await first).release();
    });

    test("onLost of a lost lease is called soon, but not synchronously", async () => {
      const redlock = new Redlock(url());
      const name = fresh();
      const lease = await redlock.lock(name).acquire();
      await redlock.forceRelease(name);
      await eventually(() => assert.equal(lease.held, false));
      const told = [];
      lease.onLost((error) => told.push(error.reason));
      assert.deepEqual(told, []);
      await eventually(() => assert.deepEqual(told, ["missing"]));
    });

    // It runs once for each place, and this one covers all nodes.
    if (kind !== "memory://") return;
    test("a lease held for long causes one warning with its call site", async (context) => {
      const warned = context.mock.method(process, "emitWarning", () => undefined);
      const redlock = new Redlock(url());
      const lease = await redlock.lock(fresh(), { ttl: 4500 }).acquire();
      // Never shortens, so it stays held on a busy machine.
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
