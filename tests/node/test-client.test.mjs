// redlock-native/testing: a separate client for a test, and the failures that it simulates.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { configure, InvalidOption, lock, onLog, onWarning, Redlock } from "redlock-native";
import { TestRedlock } from "redlock-native/testing";
import { assertRefused, block, eventually } from "./helper.mjs";
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
});

for (const verb of ["jump", "advance"]) {
  isolated(`${verb}(): invalid times are rejected`, async (redlock) => {
    for (const wrong of [-1, Number.NaN, Number.POSITIVE_INFINITY, "10", null, undefined]) {
      const error = await redlock[verb](wrong).catch((caught) => caught);
      assert.ok(error instanceof InvalidOption, String(wrong));
      assert.match(error.message, /^ms must be (a number of milliseconds|at most)/);
    }
  });
}

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

test("leases of hold() end without a warning", async () => {
  const ended = [];
  const stop = onLog(({ logger, level, event }) => {
    if (logger === "redlock.lease") ended.push(`${level} ${event}`);
  });
  const redlock = new TestRedlock();
  await redlock.hold("job");
  redlock.close();
  await eventually(() => assert.deepEqual(ended, ["debug detached"]));
  stop();
});

describe("advance():", () => {
  isolated("a loss is reported before it resolves", async (redlock) => {
    const lease = await redlock.lock("left", { ttl: 10_000, renew: false }).acquire();
    const told = [];
    lease.onLost(({ reason }) => told.push(reason));
    await redlock.advance(9_000);
    assert.deepEqual([lease.held, told], [true, []]);
    await redlock.advance(1_000);
    assert.deepEqual([lease.held, told], [false, ["expired"]]);
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
