// The effects of the binding on a process: when it ends, when it stays alive, and its warnings.
import assert from "node:assert/strict";
import { once } from "node:events";
import { Redlock } from "redlock-native";
import { eventually, program, serverForSuite, uniqueName } from "./helper.mjs";
import { describe, slow, test } from "./testing.mjs";

const shared = serverForSuite();

slow(
  "leases expire and are renewed in real time, which the collector takes part of",
  "a collected lease stops renewing and a warning shows its call site",
  async () => {
    const { server } = shared;
    const { code, stderr, lines } = await program("gc", [server.url], { flags: ["--expose-gc"] });
    assert.equal(code, 0, stderr);
    assert.deepEqual(JSON.parse(lines.at(-1)), { early: null, later: true, kept: true });
    assert.match(stderr, /\[REDLOCK\] RedlockWarning: lock:collected: .*garbage-collected/);
    assert.match(stderr, /forgetful.*gc\.mjs:9/);
    assert.doesNotMatch(stderr, /lock:(released|kept): a lease was garbage-collected/);
  },
);

slow(
  "it measures when a process ends",
  "a held lease does not keep the process alive",
  async () => {
    const { server } = shared;
    const started = performance.now();
    const { code, stderr, lines } = await program("holds", [server.url]);
    assert.equal(code, 0, stderr);
    assert.ok(performance.now() - started < 10_000);
    assert.equal(await server.cli("GET", "lock:held"), lines[0]);
    assert.equal(lines.length, 1);
    // It is not renewed any more, so it expires when its TTL ends.
    const next = await new Redlock(server.url).lock("held", { wait: 10_000 }).acquire();
    await next.release();
  },
);

test("a pending acquire or release keeps the process alive", async () => {
  const { server } = shared;
  const options = { ttl: 60_000, renew: false };
  const lease = await new Redlock(server.url).lock("waited", options).acquire();
  const running = program("waits", [server.url]);
  // It runs three scripts when it begins to wait, and the next one half a second later at least. A process without
  // pending work has ended by then.
  const scripts = async () => {
    const stats = await server.cli("INFO", "commandstats");
    return Number(/cmdstat_evalsha:calls=(\d+)/.exec(stats)[1]);
  };
  const before = await scripts();
  await eventually(async () => assert.ok((await scripts()) >= before + 4));
  await lease.release();
  const { code, stderr, lines } = await running;
  assert.equal(code, 0, stderr);
  assert.deepEqual([lines[0], lines[2]], ["waiting", "released"]);
  assert.match(lines[1], /^[0-9a-f]{32}$/);
});

test("an aborted acquire does not keep the process alive", async () => {
  const { server } = shared;
  const lease = await new Redlock(server.url).lock("given-up").acquire();
  const { code, stderr, lines } = await program("aborts", [server.url]);
  assert.equal(code, 0, stderr);
  assert.deepEqual(lines, ["AbortError"]);
  await lease.release();
});

describe("a body that waits for the loss of its lease keeps the process alive:", () => {
  for (const [call, result] of Object.entries({
    using: { kind: "lost", reason: "max_hold" },
    read: { kind: "lost", reason: "max_hold" },
    once: { kind: "lost", reason: "max_hold" },
    leader: "term 2",
  })) {
    test(call, async () => {
      const { code, stderr, lines } = await program("bodies", [call]);
      assert.equal(code, 0, stderr);
      assert.deepEqual(lines.map(JSON.parse), [result]);
    });
  }
});

describe("a body that never settles does not keep the process alive after", () => {
  for (const [what, expected] of Object.entries({ close: 0, released: 0, detached: 0, exit: 7 })) {
    test(what, async () => {
      const { code, stderr, lines } = await program("bodies", [what]);
      assert.equal(code, expected, stderr);
      assert.deepEqual(lines, []);
    });
  }
});

test("core's warnings reach process.emitWarning with the code REDLOCK", async () => {
  const { server } = shared;
  const warned = once(process, "warning");
  const lease = await new Redlock(server.url).lock(uniqueName(), { ttl: 600 }).acquire();
  await server.cli("DEL", lease.key);
  const [warning] = await warned;
  assert.equal(warning.code, "REDLOCK");
  assert.ok(warning.message.includes(lease.key), warning.message);
});
