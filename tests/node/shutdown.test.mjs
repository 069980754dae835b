// Orderly shutdown: the holder of a released lease is notified, and no key is left behind.
import assert from "node:assert/strict";
import { LockLost, Redlock } from "redlock-native";
import { program, refusal, Server, serverForSuite, uniqueName, waiting } from "./helper.mjs";
import { describe, test } from "./testing.mjs";

const shared = serverForSuite();
const kinds = {
  "memory://": () => `memory://${uniqueName()}`,
  "redis://": () => shared.server.url,
};

for (const [kind, url] of Object.entries(kinds)) {
  describe(kind, () => {
    test("releaseAll() notifies running bodies before another client acquires", async () => {
      const [node, name] = [url(), uniqueName()];
      const [redlock, other] = [new Redlock(node), new Redlock(node)];
      const told = [];
      let atNext;
      const scope = redlock.using(name, async (lease) => {
        lease.onLost((error) => told.push(error));
        const { signal } = lease;
        const acquiring = other
          .lock(name)
          .acquire()
          .then((next) => [next, lease.held, signal.aborted, signal.reason]);
        await waiting(other);
        assert.equal(await redlock.releaseAll(), 1);
        atNext = await acquiring;
      });
      await assert.rejects(scope, { kind: "lost", reason: "revoked" });
      const [next, held, aborted, reason] = atNext;
      assert.equal(held, false, "two holders: the lease is held after another acquire");
      assert.equal(aborted, true);
      assert.ok(reason instanceof LockLost);
      assert.equal(reason.reason, "revoked");
      assert.match(reason.message, /releaseAll, shutdown or another lease/);
      assert.equal(told.length, 1);
      assert.equal(next.held, true);
      await next.release();
    });

    test("shutdown() lets an acquire of the same turn finish", async () => {
      const redlock = new Redlock(url());
      const acquiring = redlock.using(uniqueName(), async (lease) => lease.held);
      const ended = redlock.shutdown(600_000);
      assert.equal(await acquiring, true);
      assert.equal(await ended, 0);
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

test("the scope of a client without a server warns", async (context) => {
  const server = await Server.start();
  const redlock = new Redlock(server.url);
  const lease = await redlock.lock(uniqueName(), { ttl: 60_000 }).acquire();
  await server.stop();
  const warned = context.mock.method(process, "emitWarning", () => undefined);
  await redlock[Symbol.asyncDispose]();
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
