// redlock-native/testing: a separate client for a test, and the failures that it simulates.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { configure, InvalidOption, lock, onWarning, Redlock } from "redlock-native";
import { TestRedlock } from "redlock-native/testing";
import { assertRefused, block, eventually, waiting } from "./helper.mjs";
import { describe, test } from "./testing.mjs";

const require = createRequire(import.meta.url);

/** A test with a separate client. */
function isolated(name, body, options) {
  test(name, async () => {
    const redlock = new TestRedlock(options);
    try {
      await body(redlock);
    } finally {
      await redlock.shutdown(0);
    }
  });
}

describe("a test client", () => {
  test("is a Redlock in ES modules and CommonJS", () => {
    assert.ok(new TestRedlock() instanceof Redlock);
    assert.equal(require("redlock-native/testing").TestRedlock, TestRedlock);
    assert.throws(() => new TestRedlock({ ttl: 5 }), { kind: "invalid" });
  });

  isolated("shares its node only with clients that use its nodes", async (redlock) => {
    const other = new TestRedlock();
    const lease = await redlock.lock("job").acquire();
    await other.using("job", (theirs) => assert.equal(theirs.held, true));
    const same = new Redlock(redlock.nodes);
    await assertRefused(same.lock("job"));
    configure(redlock.nodes, { replace: true });
    await assertRefused(lock("job"));
    await lease.release();
    await other.shutdown();
  });
});

describe("jump():", () => {
  test("a later loss that the program does not listen for causes a warning", async () => {
    const warnings = [];
    onWarning(({ message }) => warnings.push(message));
    const redlock = new TestRedlock({ keyPrefix: "warned:" });
    const lease = await redlock.lock("job").acquire();
    await redlock.jump(1);
    assert.ok(lease.held);
    redlock.close();
    const losses = () => warnings.filter((message) => message.includes(`key=${lease.key} `));
    await eventually(() => assert.equal(losses().length, 1));
    onWarning(null);
  });

  isolated("invalid times are rejected", async (redlock) => {
    for (const wrong of [-1, Number.NaN, Number.POSITIVE_INFINITY, "10", null, undefined]) {
      const error = await redlock.jump(wrong).catch((caught) => caught);
      assert.ok(error instanceof InvalidOption, String(wrong));
      assert.match(error.message, /^ms must be (a number of milliseconds|at most)/);
    }
  });
});

describe("hold():", () => {
  isolated(
    "the lock cannot be acquired until the other client releases it",
    async (redlock) => {
      const theirs = await redlock.hold("job", { ttl: 5000 });
      assert.equal(theirs.key, "app:job");
      await assertRefused(redlock.lock("job"));
      await assert.rejects(redlock.lock("job", { wait: 20 }).acquire(), ({ kind, message }) => {
        assert.equal(kind, "timeout");
        assert.doesNotMatch(message, /this client holds it/);
        return true;
      });
      const waiting = redlock.lock("job", { wait: 5000 }).acquire();
      await theirs.release();
      await (await waiting).release();
    },
    { keyPrefix: "app:" },
  );

  isolated("fails immediately if the lock is held", async (redlock) => {
    const lease = await redlock.lock("job").acquire();
    await assert.rejects(redlock.hold("job"), { kind: "timeout" });
    assert.equal(lease.held, true);
    await lease.release();
  });
});

describe("lose():", () => {
  isolated("the holder is notified in every way before it resolves", async (redlock) => {
    const lease = await redlock.lock(["{a}1", "{a}2"]).acquire();
    const kept = await redlock.lock("kept").acquire();
    const told = [];
    lease.onLost(({ reason }) => told.push(reason));
    const { signal } = lease;
    assert.equal(await redlock.lose("{a}2"), true);
    assert.deepEqual([told, signal.aborted, lease.held], [["missing"], true, false]);
    assert.throws(() => lease.ensureHeld(), { kind: "lost" });
    assert.equal(kept.held, true);
    await kept.release();
  });

  isolated("using() rejects with LockLost", async (redlock) => {
    const work = redlock.using("job", async ({ signal }) => {
      await redlock.lose("job");
      assert.equal(signal.aborted, true);
    });
    await assert.rejects(work, { kind: "lost", reason: "missing" });
  });

  isolated("resolves for a lock that is free or being released", async (redlock) => {
    assert.equal(await redlock.lose("job"), false);
    const lease = await redlock.lock("job").acquire();
    const releasing = lease.release();
    await redlock.lose("job");
    await releasing.catch(({ kind }) => assert.equal(kind, "lost"));
  });
});

describe("fail():", () => {
  isolated("every method rejects until the node recovers", async (redlock) => {
    const lease = await redlock.lock("held", { ttl: 30_000 }).acquire();
    redlock.fail();
    const described = redlock.lock("job", { wait: 20 });
    const verbs = [
      () => described.acquire(),
      () => described.tryAcquire(),
      () => described.inspect(),
    ];
    verbs.push(
      () => lease.extend(),
      () => redlock.forceRelease("job"),
      () => redlock.hold("job"),
    );
    for (const verb of verbs) {
      await assert.rejects(verb, ({ kind, nodes }) => {
        assert.equal(kind, "unavailable");
        assert.deepEqual(
          nodes.map(({ state, error }) => [state, error]),
          [["fault", "a test has this node fail"]],
        );
        return true;
      });
    }
    assert.equal(lease.held, true);
    redlock.recover();
    await lease.extend();
    await (await described.acquire()).release();
    await lease.release();
  });

  isolated("a waiter acquires the lock when the node recovers", async (redlock) => {
    redlock.fail();
    const acquiring = redlock.lock("job", { wait: 20_000 }).acquire();
    await waiting(redlock);
    await assert.rejects(redlock.lock("other").tryAcquire(), { kind: "unavailable" });
    redlock.recover();
    await (await acquiring).release();
  });

  isolated("a lease that cannot be renewed is lost before another acquire", async (redlock) => {
    const lease = await redlock.lock("job", { ttl: 300 }).acquire();
    const { signal } = lease;
    redlock.fail();
    const alive = setInterval(() => undefined, 1000);
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
    clearInterval(alive);
    assert.equal(signal.reason.reason, "expired");
    redlock.recover();
    await (await redlock.lock("job", { wait: 5000 }).acquire()).release();
  });

  isolated("a held lease stays held after the recovery", async (redlock) => {
    const lease = await redlock.lock("job", { ttl: 30_000 }).acquire();
    redlock.fail();
    redlock.recover();
    await assertRefused(new Redlock(redlock.nodes).lock("job"));
    assert.equal(lease.held, true);
    await lease.release();
  });

  test("shutdown and close end the simulated failures and holders", async () => {
    const redlock = new TestRedlock();
    await redlock.hold("other");
    const lease = await redlock.lock("job").acquire();
    redlock.fail();
    assert.equal(await redlock.shutdown(0), 1);
    block(5);
    assert.equal(lease.held, false);
    const [node] = redlock.nodes;
    await (await new Redlock(node).lock("job").tryAcquire()).release();
    const closed = new TestRedlock();
    closed.close();
    await assert.rejects(closed.hold("job"), { kind: "closed" });
  });
});

test("shutdown() reports releases that wait for a failing node", async () => {
  const node = new TestRedlock();
  // The shutdown of the test client itself makes the node work again.
  const redlock = new Redlock(node.nodes);
  const lease = await redlock.lock("job").acquire();
  node.fail();
  await assert.rejects(lease.release(), { kind: "unavailable" });
  const unconfirmed = { kind: "unavailable", message: /releases are not confirmed/ };
  await assert.rejects(redlock.shutdown(0), unconfirmed);
  node.recover();
  await (await node.lock("job").tryAcquire()).release();
});

describe("advance():", () => {
  isolated("leases are renewed on the way, and end at maxHold", async (redlock) => {
    const renewed = await redlock.lock("renewed", { ttl: 10_000 }).acquire();
    const left = await redlock.lock("left", { ttl: 10_000, renew: false }).acquire();
    const limited = await redlock.lock("limited", { ttl: 10_000, maxHold: 600_000 }).acquire();
    const told = [];
    limited.onLost(({ reason }) => told.push(reason));
    left.onLost(({ reason }) => told.push(reason));
    await redlock.advance(9_000);
    assert.deepEqual([renewed.held, left.held, told], [true, true, []]);
    await redlock.advance(1_000);
    assert.deepEqual([renewed.held, left.held, told], [true, false, ["expired"]]);
    await redlock.advance(590_000);
    assert.deepEqual([renewed.held, limited.held], [true, false]);
    assert.deepEqual(told, ["expired", "max_hold"]);
    assert.ok(redlock.stats().renewed > 100, `${redlock.stats().renewed}`);
    await renewed.release();
  });

  isolated("invalid times are rejected", async (redlock) => {
    for (const wrong of [-1, Number.NaN, Number.POSITIVE_INFINITY, "10", null, undefined]) {
      const error = await redlock.advance(wrong).catch((caught) => caught);
      assert.ok(error instanceof InvalidOption, String(wrong));
      assert.match(error.message, /^ms must be (a number of milliseconds|at most)/);
    }
  });
});

describe("untilWaiting() and untilHeld():", () => {
  isolated("resolve once it is so", async (redlock) => {
    const first = redlock.lock("job").acquire();
    await redlock.untilHeld("job");
    const waits = [1, 2].map(() => redlock.lock("job").using(() => undefined));
    await redlock.untilWaiting(2);
    assert.equal(redlock.stats().waiting, 2);
    await (await first).release();
    await Promise.all(waits);
    await redlock.hold("theirs");
    await redlock.untilHeld(redlock.lock("theirs"));
  });

  isolated("reject at the timeout", async (redlock) => {
    await assert.rejects(redlock.untilWaiting(2, 0), /0 acquires are under way, fewer than 2/);
    await assert.rejects(redlock.untilHeld("job", 0), /lock:job: not held/);
  });
});
