// Warnings: their destination, those that appear once, and those that never appear.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { onWarning, Redlock } from "redlock-native";
import { eventually, program, refusal, Server, table, uniqueName } from "./helper.mjs";
import { after, before, describe, test } from "./testing.mjs";

const run = promisify(execFile);
const built = fileURLToPath(
  new URL("../../bindings-node/dist/telemetry/warnings.js", import.meta.url),
);
const heard = [];
/** The warnings about losses of this name. */
const losses = (name) => heard.filter(({ message }) => message.includes(`key=lock:${name} `));

before(() => onWarning((warning) => heard.push(warning)));
after(() => onWarning(null));

const client = () => new Redlock(`memory://${uniqueName()}`);

/** Resolves when a loss after this call has been warned of. Warnings about earlier losses come first. */
async function laterWarning() {
  const [redlock, name] = [client(), uniqueName()];
  await redlock.lock(name).acquire();
  redlock.close();
  await eventually(() => assert.equal(losses(name).length, 1));
}

test("an acquire works while the program replaces the timers of Node.js", async () => {
  const program = `
    import timers from "node:timers";
    import { Redlock } from "redlock-native";
    timers.setTimeout = () => { throw new Error("replaced"); };
    const lease = await new Redlock("memory://").lock("job").acquire();
    console.log(lease.held);
  `;
  const cwd = fileURLToPath(new URL(".", import.meta.url));
  const words = ["--input-type=module", "-e", program];
  assert.equal((await run(process.execPath, words, { cwd })).stdout, "true\n");
});

test("a server that may evict keys causes a warning", async () => {
  const server = await Server.start(["--maxmemory-policy", "allkeys-lru"]);
  const redlock = new Redlock(server.url);
  await redlock.using(uniqueName(), () => undefined);
  const about = () => heard.map(({ message }) => message).filter((it) => it.includes(server.shown));
  await eventually(() => assert.match(about().join(), /noeviction.*allkeys-lru/));
  redlock.close();
  await server.stop();
});

describe("onWarning", () => {
  for (const how of ["throws", "rejects", "rejects in another realm"]) {
    test(`a listener that ${how} does not end the process`, async () => {
      const { code, stderr, lines } = await program("throwing-warning", [how]);
      assert.equal(code, 0, stderr);
      assert.deepEqual(lines, ["1 REDLOCK a listener of onWarning() threw Error: theirs"]);
    });
  }

  test("receives a warning instead of the process", async (context) => {
    const emitted = context.mock.method(process, "emitWarning", () => undefined);
    const [redlock, name] = [client(), uniqueName()];
    await redlock.lock(name).acquire();
    redlock.close();
    await eventually(() => assert.equal(losses(name).length, 1));
    const [warning] = losses(name);
    const rest = `key=lock:${name} reason=closed token=[0-9a-f]{8} held_ms=`;
    assert.match(warning.message, new RegExp(`^lease lost ${rest}`));
    assert.deepEqual([warning.name, warning.code], ["RedlockWarning", "REDLOCK"]);
    assert.ok(warning instanceof Error);
    assert.equal(emitted.mock.callCount(), 0);
  });

  test("accepts a function or null", () => {
    for (const wrong of [undefined, "console.log", {}]) {
      assert.throws(() => onWarning(wrong), refusal(["onWarning()", "function"]));
    }
  });
});

test("a name is shown on one line", async () => {
  const redlock = client();
  for (const { name, shown } of table("secrets").name) {
    await redlock.lock(name).acquire();
    await redlock.forceRelease(name);
    await eventually(() => assert.equal(losses(shown).length, 1));
    assert.doesNotMatch(losses(shown)[0].message, /\p{C}|\p{Zl}|[0-9a-f]{32}/iu);
  }
});

test("a warning in a sandbox, whose Error is another class, does not end the process", async () => {
  const program = `
    const { warn } = require(${JSON.stringify(built)});
    globalThis.Error = require("node:vm").runInNewContext("Error");
    warn("some text");`;
  const { stderr } = await run(process.execPath, ["--eval", program]);
  assert.match(stderr, /\[REDLOCK\] RedlockWarning: some text\n/);
});

describe("a loss", () => {
  const ways = {
    onLost: (lease) => lease.onLost(() => undefined),
    "lease.signal": (lease) => lease.signal,
  };
  for (const [name, listen] of Object.entries(ways)) {
    test(`that ${name} reports is not a warning`, async () => {
      const redlock = client();
      const [one, other] = [uniqueName(), uniqueName()];
      listen(await redlock.lock(one).acquire());
      await redlock.lock(other).acquire();
      redlock.close();
      await eventually(() => assert.equal(losses(other).length, 1));
      await laterWarning();
      assert.deepEqual([losses(one).length, losses(other).length], [0, 1]);
    });
  }

  test("of a key with control characters is not a warning if a listener reports it", async () => {
    const redlock = client();
    const start = `${uniqueName()}-`;
    (await redlock.lock(`${start}\n\u202e`).acquire()).onLost(() => undefined);
    redlock.close();
    await laterWarning();
    assert.equal(heard.filter(({ message }) => message.includes(start)).length, 0);
  });

  test("causes a warning after its listener was removed", async () => {
    const [redlock, name] = [client(), uniqueName()];
    const lease = await redlock.lock(name).acquire();
    lease.onLost(() => undefined)();
    redlock.close();
    await eventually(() => assert.equal(losses(name).length, 1));
  });

  test("of a later lease on the same key causes a warning", async () => {
    const [redlock, name] = [client(), uniqueName()];
    const first = await redlock.lock(name).acquire();
    first.onLost(() => undefined);
    await first.release();
    assert.equal(first.signal.aborted, false);
    await redlock.lock(name).acquire();
    redlock.close();
    await eventually(() => assert.equal(losses(name).length, 1));
  });
});

// The tests before this one had few losses, and all of them were warned of.
test("thousands of warnings of a kind are limited and counted", async () => {
  const lost = () => heard.filter(({ message }) => message.startsWith("lease lost "));
  const before = lost().length;
  const redlock = client();
  const names = Array.from({ length: 2_000 }, () => uniqueName());
  await Promise.all(names.map((name) => redlock.lock(name).acquire()));
  redlock.close();
  const more = () =>
    lost().flatMap(({ message }) => {
      const [, count] = / \(and (\d+) more such warnings within 1 s\)$/.exec(message) ?? [];
      return count === undefined ? [] : [Number(count)];
    });
  // Each second has ten warnings, then the last one with the count of the others. On a busy machine it takes several
  // seconds.
  const counted = () => more().reduce((sum, count) => sum + count, lost().length);
  await eventually(() => assert.equal(counted(), before + 2_000));
  const seconds = more().length;
  assert.ok(seconds > 0 && lost().length <= 11 * (seconds + 1), `${lost().length} in ${seconds} s`);
});

test("an outage causes one warning for any number of failed acquires", async () => {
  const server = await Server.start();
  const redlock = new Redlock(server.url);
  await redlock.using("before", () => undefined);
  // Otherwise there is another warning, about a missing second connection.
  await eventually(async () => assert.match(await server.cli("CLIENT", "LIST"), / redir=[1-9]/));
  server.process.kill("SIGKILL");
  await once(server.process, "exit");
  const ours = () => heard.filter(({ message }) => message.includes(server.shown));
  const waits = redlock.lock("waits").acquire();
  const fail = async () => {
    const locks = Array.from({ length: 50 }, () => redlock.lock(uniqueName()));
    const failed = await Promise.allSettled(locks.map((lock) => lock.tryAcquire()));
    for (const { reason } of failed) assert.equal(reason.kind, "unavailable");
  };
  while (ours().length === 0) await fail();
  for (let round = 0; round < 5; round += 1) await fail();
  // Ordered after all other warnings.
  await laterWarning();
  const [{ message }] = ours();
  assert.equal(ours().length, 1, ours().join("\n"));
  const rest = `node=${server.shown} outage_ms=[\\d.]+ failures=\\d+`;
  assert.match(message, new RegExp(`^unavailable for [\\d.]+ s, retrying: .* ${rest}$`));
  await server.begin();
  await (await waits).release();
  redlock.close();
  await server.stop();
});

test("a long hold causes one warning per call site", async () => {
  const redlock = client();
  // Acquires with the same options within a short time count as one call site.
  const lock = (name, ttl = 4_500) => redlock.lock(name, { ttl });
  const leases = [];
  for (const name of ["a", "b", "c"]) leases.push(await lock(name).acquire());
  leases.push(await lock("d", 4_600).acquire());
  // Never shortens, so they stay held on a busy machine.
  await Promise.all(leases.map((lease) => lease.extend(100)));
  const places = () =>
    heard.flatMap(({ message }) => /^held for more than ten times.*:(\d+):\d+/.exec(message) ?? []);
  const lines = () => places().filter((_, at) => at % 2 === 1);
  await eventually(() => assert.equal(lines().length, 2, places().join("\n")));
  // The warning about a later hold comes after all warnings about these.
  const later = await lock("e").acquire();
  await later.extend(100);
  leases.push(later);
  await eventually(() => assert.equal(lines().length, 3, places().join("\n")));
  assert.equal(new Set(lines()).size, 3, places().join("\n"));
  for (const lease of leases) await lease.release();
  redlock.close();
});
