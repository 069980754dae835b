// Orderly shutdown: the holder of a released lease is notified, and no key is left behind.
import assert from "node:assert/strict";
import { LockLost, Redlock } from "redlock-native";
import {
  eventually,
  laterLoss,
  program,
  refusal,
  Server,
  serverForSuite,
  uniqueName,
  waiting,
} from "./helper.mjs";
import { describe, test } from "./testing.mjs";

const shared = serverForSuite();
const kinds = {
  "memory://": () => `memory://${uniqueName()}`,
  "redis://": () => shared.server.url,
};

/** Runs a body under the lock until `leave` is called. Returns its outcome. */
function running(redlock, name, options = {}) {
  const { promise: entered, resolve: enter } = deferred();
  const { promise: left, resolve: leave } = deferred();
  const told = [];
  const scope = redlock
    .using(name, options, async (lease) => {
      lease.onLost((error) => told.push(error));
      enter(lease);
      await left;
      return "done";
    })
    .catch((error) => error);
  return { entered, leave, scope, told };
}

for (const [kind, url] of Object.entries(kinds)) {
  describe(kind, () => {
    test("releaseAll() notifies running bodies before another client acquires", async () => {
      const [node, name] = [url(), uniqueName()];
      const [redlock, other] = [new Redlock(node), new Redlock(node)];
      const { entered, leave, scope, told } = running(redlock, name);
      const lease = await entered;
      const { signal } = lease;
      const acquiring = other
        .lock(name)
        .acquire()
        .then((next) => [next, lease.held, signal.aborted]);
      await waiting(other);
      assert.equal(await redlock.releaseAll(), 1);
      const [next, held, aborted] = await acquiring;
      assert.equal(held, false, "two holders: the lease is held after another acquire");
      assert.equal(aborted, true);
      assert.ok(signal.reason instanceof LockLost);
      assert.equal(signal.reason.reason, "revoked");
      assert.match(signal.reason.message, /releaseAll, shutdown or another lease/);
      leave();
      assert.deepEqual([(await scope).kind, (await scope).reason], ["lost", "revoked"]);
      assert.equal(told.length, 1);
      assert.equal(next.held, true);
      await next.release();
    });

    test("the body's own release is not a loss", async () => {
      const redlock = new Redlock(url());
      let signal;
      const scope = redlock.using(uniqueName(), async (lease) => {
        ({ signal } = lease);
        await lease.release();
        assert.equal(await redlock.releaseAll(), 0);
        await laterLoss(redlock);
        return "done";
      });
      assert.equal(await scope, "done");
      assert.equal(signal.aborted, false);
    });

    test("a release by another lease with the same token is a loss (revoked)", async () => {
      const redlock = new Redlock(url());
      const name = uniqueName();
      const first = await redlock.lock(name).acquire();
      const second = await redlock.attach(name, first.token);
      const told = [];
      first.onLost(({ reason }) => told.push(reason));
      await second.release();
      await eventually(() => assert.equal(first.held, false));
      await eventually(() => assert.deepEqual(told, ["revoked"]));
    });

    test("shutdown() lets waiting acquires finish", async () => {
      const node = url();
      const [redlock, other] = [new Redlock(node), new Redlock(node)];
      const name = uniqueName();
      const foreign = await other.lock(name).acquire();
      const body = async (lease) => lease.held;
      const waiters = [redlock.using(name, body), redlock.using(name, body)];
      await waiting(redlock, 2);
      // Called in the same turn as shutdown(), and before it.
      waiters.push(redlock.using(name, body));
      let over = false;
      const ended = redlock.shutdown(600_000).finally(() => {
        over = true;
      });
      await waiting(redlock, 3);
      for (const refused of [
        redlock.lock(uniqueName()).acquire(),
        redlock.lock(name).tryAcquire(),
      ]) {
        await assert.rejects(refused, { name: "ClientClosed" });
      }
      assert.equal(over, false);
      await foreign.release();
      assert.deepEqual(await Promise.all(waiters), [true, true, true]);
      assert.equal(await ended, 0);
      await (await other.lock(name).tryAcquire()).release();
    });

    test("shutdown() ends acquires that still wait at its timeout", async () => {
      for (const timeout of [0, 50]) {
        const node = url();
        const [redlock, other] = [new Redlock(node), new Redlock(node)];
        const name = uniqueName();
        const foreign = await other.lock(name).acquire();
        const refused = assert.rejects(redlock.lock(name).acquire(), { kind: "closed" });
        await waiting(redlock);
        assert.equal(await redlock.shutdown(timeout), 0);
        await refused;
        assert.equal(foreign.held, true);
        await foreign.release();
      }
    });

    test("shutdown() waits for running bodies and resolves with 0", async () => {
      const node = url();
      const redlock = new Redlock(node);
      const name = uniqueName();
      const { entered, leave, scope, told } = running(redlock, name);
      const lease = await entered;
      let over = false;
      const ended = redlock.shutdown().finally(() => {
        over = true;
      });
      await assert.rejects(redlock.lock(uniqueName()).acquire(), { name: "ClientClosed" });
      assert.equal(lease.held, true);
      await laterLoss(new Redlock(node));
      assert.equal(over, false, "shutdown() did not wait for the body");
      leave();
      assert.equal(await scope, "done");
      assert.equal(await ended, 0);
      assert.deepEqual(told, []);
      assert.equal(await redlock.shutdown(), 0);
    });

    test("shutdown() releases the remaining leases at its timeout", async () => {
      const node = url();
      const redlock = new Redlock(node);
      const name = uniqueName();
      const { entered, leave, scope, told } = running(redlock, name);
      const lease = await entered;
      const started = performance.now();
      assert.equal(await redlock.shutdown(200), 1);
      assert.ok(performance.now() - started >= 190);
      assert.equal(lease.held, false);
      await eventually(() => assert.equal(told.length, 1));
      assert.equal(told[0].reason, "revoked");
      // Immediately, not after a TTL.
      await (await new Redlock(node).lock(name).tryAcquire()).release();
      leave();
      assert.equal((await scope).reason, "revoked");
    });

    test("Symbol.asyncDispose of a client leaves no key", async () => {
      const node = url();
      const redlock = new Redlock(node);
      const name = uniqueName();
      const lease = await redlock.lock(name, { ttl: 60_000 }).acquire();
      await redlock[Symbol.asyncDispose]();
      assert.equal(lease.signal.reason.reason, "revoked");
      await (await new Redlock(node).lock(name).tryAcquire()).release();
      await assert.rejects(redlock.lock(name).acquire(), { kind: "closed" });
      await redlock[Symbol.asyncDispose]();
    });
  });
}

test("without a server shutdown() rejects in time and a scope warns", async (context) => {
  const server = await Server.start();
  const [one, two] = [new Redlock(server.url), new Redlock(server.url)];
  await one.lock(uniqueName(), { ttl: 60_000 }).acquire();
  const lease = await two.lock(uniqueName(), { ttl: 60_000 }).acquire();
  await server.stop();
  await assert.rejects(one.shutdown(0), { kind: "unavailable" });
  await assert.rejects(one.lock(uniqueName()).acquire(), { kind: "closed" });
  const warned = context.mock.method(process, "emitWarning", () => undefined);
  await two[Symbol.asyncDispose]();
  const texts = warned.mock.calls.map((call) => call.arguments[0].message);
  const ours = texts.filter((text) => text.startsWith("not released: "));
  assert.equal(ours.length, 1, texts.join("\n"));
  assert.ok(ours[0].includes(`${lease.key}: release not confirmed, so the key expires when`));
});

test("shutdown() rejects an invalid timeout", async () => {
  const redlock = new Redlock("memory://");
  for (const timeout of [-1, 0.5, "1s", null, {}, Number.NaN, 10n]) {
    await assert.rejects(redlock.shutdown(timeout), refusal(["timeout", "must be"]));
  }
  await assert.rejects(
    redlock.shutdown(Number.POSITIVE_INFINITY),
    refusal(["timeout", "ten years"]),
  );
  await redlock.using(uniqueName(), () => undefined);
});

test("shutdown() keeps the process alive until it is done", async () => {
  const { code, stderr, lines } = await program("shuts-down", [shared.server.url]);
  assert.equal(code, 0, stderr);
  assert.deepEqual(lines, ["told revoked", "took 1 back"]);
  assert.equal(await shared.server.cli("EXISTS", "lock:ends"), "0");
});

function deferred() {
  let resolve;
  const promise = new Promise((done) => {
    resolve = done;
  });
  return { promise, resolve };
}
