// The methods over both kinds of node.
import assert from "node:assert/strict";
import { Lease, Redlock } from "redlock-native";
import { assertRefused, eventually, serverForSuite, uniqueName, waiting } from "./helper.mjs";
import { describe, test } from "./testing.mjs";

const shared = serverForSuite();
const kinds = {
  "memory://": () => `memory://${uniqueName()}`,
  "redis://": () => shared.server.url,
};

for (const [kind, url] of Object.entries(kinds)) {
  describe(kind, () => {
    const client = (options) => new Redlock(url(), options);

    test("acquire returns a lease that is held until its release", async () => {
      const name = uniqueName();
      const lock = client().lock(name, { ttl: 5000 });
      const lease = await lock.acquire();
      assert.ok(lease instanceof Lease);
      assert.equal(lock.key, `lock:${name}`);
      assert.equal(lease.key, lock.key);
      assert.match(lease.token, /^[0-9a-f]{32}$/);
      assert.equal(lease.held, true);
      assert.ok(Number.isInteger(lease.remaining) && lease.remaining > 3000);
      assert.ok(lease.remaining <= 5000);
      lease.ensureHeld();
      const { token } = lease;
      await lease.release();
      assert.equal(lease.held, false);
      assert.equal(lease.remaining, 0);
      assert.equal(lease.token, token);
      assert.throws(() => lease.ensureHeld(), { kind: "released", resource: lock.key });
      await assert.rejects(lease.extend(), { kind: "released" });
      await lease.release();
      assert.equal(lease.signal.aborted, false);
    });

    test("a second client acquires the lock only after the release", async () => {
      const redlock = client();
      const lock = redlock.lock(uniqueName());
      const first = await lock.acquire();
      const second = lock.acquire();
      await waiting(redlock);
      const { nodes } = await lock.inspect();
      assert.equal(nodes[0].token, first.token.slice(0, 8), "two holders: a key was overwritten");
      assert.equal(
        redlock.stats().granted,
        1,
        "two holders: a waiting caller was granted the lock",
      );
      await first.release();
      const lease = await second;
      assert.equal(lease.held, true);
      assert.notEqual(lease.token, first.token);
      await lease.release();
    });

    test("LockTimeout has the key, the waited time and the remaining time", async () => {
      const redlock = client();
      const lock = redlock.lock(uniqueName(), { ttl: 5000, wait: 150 });
      const lease = await lock.acquire();
      const started = performance.now();
      await assert.rejects(lock.acquire(), (error) => {
        assert.equal(error.name, "LockTimeout");
        assert.equal(error.kind, "timeout");
        assert.equal(error.resource, lock.key);
        assert.ok(error.message.includes(lock.key));
        assert.ok(error.waited >= 100);
        assert.ok(error.remaining > 0 && error.remaining <= 5000);
        return true;
      });
      assert.ok(performance.now() - started >= 140);
      await assert.rejects(lock.acquire({ wait: 0 }), { kind: "timeout" });
      await lease.release();
    });

    test("acquire({ wait }) overrides the wait of the lock", async () => {
      const redlock = client();
      const lock = redlock.lock(uniqueName(), { wait: 0 });
      const first = await lock.acquire();
      const second = lock.acquire({ wait: Number.POSITIVE_INFINITY });
      await waiting(redlock);
      await first.release();
      await (await second).release();
    });

    test("tryAcquire returns null while another client holds the lock", async () => {
      const lock = client().lock(uniqueName());
      const lease = await lock.tryAcquire();
      assert.equal(lease.held, true);
      await assertRefused(lock);
      await lease.release();
      const again = await lock.tryAcquire();
      assert.equal(again.held, true);
      await again.release();
    });

    test("extend never shortens the lease", async () => {
      const lock = client().lock(uniqueName(), { ttl: 5000, renew: false });
      const lease = await lock.acquire();
      await lease.extend(20_000);
      assert.ok(lease.remaining > 15_000);
      await lease.extend(1000);
      assert.ok(lease.remaining > 15_000);
      await lease.extend();
      await lease.release();
    });

    test("renewal keeps a lease beyond its ttl, and renew: false lets it expire", async () => {
      const redlock = client();
      const renewed = await redlock.lock(uniqueName(), { ttl: 2000 }).acquire();
      const single = await redlock.lock(uniqueName(), { ttl: 2000, renew: false }).acquire();
      await eventually(() => assert.equal(single.held, false));
      assert.equal(renewed.held, true);
      assert.throws(() => single.ensureHeld(), { kind: "lost", reason: "expired" });
      await assert.rejects(single.release(), { kind: "lost", reason: "expired" });
      await renewed.release();
    });

    test("maxHold ends the lease despite renewal", async () => {
      const lease = await client().lock(uniqueName(), { ttl: 300, maxHold: 500 }).acquire();
      await eventually(() => assert.equal(lease.held, false), 3000);
      assert.throws(() => lease.ensureHeld(), { kind: "lost", reason: "max_hold" });
    });

    test("minHold keeps the key after the release", async () => {
      const [redlock, begun] = [client(), performance.now()];
      const lock = redlock.lock(uniqueName(), { ttl: 30_000, minHold: 1000 });
      const lease = await lock.acquire();
      await lease.release();
      assert.equal(lease.held, false);
      // The wait ends before the TTL would.
      await redlock.using(lock.names, { wait: 20_000 }, () => {
        const after = performance.now() - begun;
        assert.ok(after > 980, `${after}`);
      });
    });

    test("several names share one lease", async () => {
      const redlock = client();
      const [a, b, c] = [uniqueName(), uniqueName(), uniqueName()];
      const both = await redlock.lock([a, b]).acquire();
      await assertRefused(redlock.lock([b, c]));
      await assertRefused(redlock.lock(a));
      const free = await redlock.lock(c).tryAcquire();
      await free.release();
      await both.release();
      await (await redlock.lock([b, c]).tryAcquire()).release();
      assert.deepEqual(redlock.lock([a, b]).keys, [`lock:${a}`, `lock:${b}`]);
    });

    test("the key is exactly keyPrefix and the name", async () => {
      const name = uniqueName();
      assert.equal(client({ keyPrefix: "" }).lock(name).key, name);
      assert.equal(client({ keyPrefix: "app:" }).lock(name).key, `app:${name}`);
    });

    test("inspect returns held, remaining and the report of each node", async () => {
      const lock = client().lock(uniqueName(), { ttl: 5000 });
      const free = await lock.inspect();
      assert.equal(free.held, false);
      assert.equal(free.nodes[0].state, "free");
      assert.equal(free.nodes[0].key, lock.key);
      const lease = await lock.acquire();
      const seen = await lock.inspect();
      assert.equal(seen.held, true);
      assert.ok(seen.remaining > 0 && seen.remaining <= 5000);
      assert.equal(seen.nodes[0].state, "held");
      assert.equal(seen.nodes[0].token, lease.token.slice(0, 8));
      await lease.release();
    });

    test("forceRelease revokes the lease of the holder", async () => {
      const redlock = client();
      const name = uniqueName();
      assert.equal(await redlock.forceRelease(name), false);
      const lease = await redlock.lock(name).acquire();
      assert.equal(await redlock.forceRelease(name), true);
      await assert.rejects(lease.release(), { kind: "lost" });
      await (await redlock.lock(name).tryAcquire()).release();
    });

    test("leases lists the held leases and releaseAll ends them", async () => {
      const redlock = client();
      const one = await redlock.lock(uniqueName()).acquire();
      const two = await redlock.lock(uniqueName()).acquire();
      const tokens = redlock.leases().map((lease) => lease.token);
      assert.deepEqual(tokens.sort(), [one.token, two.token].sort());
      await redlock.leases()[0].release();
      assert.equal(await redlock.releaseAll(), 1);
      assert.equal(one.held || two.held, false);
      assert.deepEqual(redlock.leases(), []);
    });

    test("attach continues a lease by its token", async () => {
      const nodes = url();
      const name = uniqueName();
      const lease = await new Redlock(nodes).lock(name, { ttl: 5000 }).acquire();
      const other = new Redlock(nodes);
      const taken = await other.attach(name, lease.token, { ttl: 5000 });
      assert.equal(taken.token, lease.token);
      assert.equal(taken.held, true);
      await taken.release();
      await assert.rejects(other.lock(name).attach(lease.token), { kind: "lost" });
    });

    test("detach ends the lease locally and keeps the key", async () => {
      const redlock = client();
      const name = uniqueName();
      const lease = await redlock.lock(name, { ttl: 2000 }).acquire();
      const told = [];
      lease.onLost((error) => told.push(error));
      const { token } = lease;
      assert.equal(lease.detach(), true);
      assert.deepEqual([lease.held, lease.token, lease.detach()], [false, token, false]);
      assert.deepEqual(redlock.leases(), []);
      await lease.release();
      assert.equal(await redlock.lock(name).tryAcquire(), null);
      // It is not renewed any more, and its end is not a loss.
      await (await redlock.lock(name).acquire({ wait: 20_000 })).release();
      assert.deepEqual(told, []);
    });

    test("an attached lease has no fencing token", async () => {
      const lock = client().lock(uniqueName(), { fencing: true });
      const lease = await lock.acquire();
      const attached = await lock.attach(lease.token);
      assert.equal(lease.detach(), true);
      assert.throws(() => attached.fencingToken, /send it with the token/);
      await attached.release();
      const later = await lock.acquire();
      assert.ok(later.fencingToken > lease.fencingToken);
      await later.release();
    });

    test("close ends waiting acquires and leases", async () => {
      const redlock = client();
      const lock = redlock.lock(uniqueName());
      const lease = await lock.acquire();
      const waiting = assert.rejects(lock.acquire(), { kind: "closed", name: "ClientClosed" });
      redlock.close();
      await waiting;
      assert.equal(lease.held, false);
      assert.throws(() => lease.ensureHeld(), { kind: "lost", reason: "closed" });
      await assert.rejects(lock.acquire(), { kind: "closed" });
      await assert.rejects(redlock.lock(uniqueName()).tryAcquire(), { kind: "closed" });
    });
  });
}

test("the key contains only the token and is deleted by the release", async () => {
  const { server } = shared;
  const lease = await new Redlock(server.url).lock(uniqueName(), { ttl: 5000 }).acquire();
  assert.equal(await server.cli("GET", lease.key), lease.token);
  assert.equal(await server.cli("TYPE", lease.key), "string");
  const left = Number(await server.cli("PTTL", lease.key));
  assert.ok(left > 0 && left <= 5000);
  await lease.release();
  assert.equal(await server.cli("EXISTS", lease.key), "0");
});

test("a release after expiry keeps the next holder's key", async () => {
  const { server } = shared;
  const redlock = new Redlock(server.url);
  const lock = redlock.lock(uniqueName(), { ttl: 200, renew: false });
  const late = await lock.acquire();
  const next = await redlock.lock(lock.names, { ttl: 30_000 }).acquire();
  assert.equal(next.held, true);
  await assert.rejects(late.release(), { kind: "lost" });
  assert.equal(await server.cli("GET", next.key), next.token);
});
