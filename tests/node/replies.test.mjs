// A broken or hostile reply is an error with its cause, for every command.
import assert from "node:assert/strict";
import { inspect } from "node:util";
import { Redlock } from "redlock-native";
import { attempts, Fake, rows } from "./fake.mjs";
import { serverForSuite, uniqueName } from "./helper.mjs";
import { describe, test } from "./testing.mjs";

const shared = serverForSuite();
const MB = 2 ** 20;
/** The fakes of concurrent tests share this thread, and a client gives up on a connection after 2 s. */
const MAX_CONCURRENT = 4;
const singleReplies = rows.filter((row) => row.then !== "again");
assert.ok(singleReplies.length > 40 && singleReplies.length < rows.length);

/** Longer than a reply takes on a busy machine. Shorter where no reply will come. */
const nodeTimeoutFor = ({ cause }) => (cause.length > 0 ? 9000 : 400);

/** The call fails with the cause in the row. */
async function failsWith(call, cause) {
  await assert.rejects(call(), (error) => {
    assert.equal(error.name, "QuorumUnavailable", String(error));
    const [node] = error.nodes;
    assert.equal(node.state, "fault");
    assert.ok(node.error.length > 0);
    for (const word of cause) assert.ok(node.error.includes(word), node.error);
    const shown = inspect(error, { depth: null }) + JSON.stringify(error) + error.stack;
    assert.ok(!shown.includes("s3cret"), shown);
    return true;
  });
}

/** Runs the scenario with the server of each row. */
function each(about, some, scenario, options) {
  describe(about, options, () => {
    for (const row of some) {
      test(row.about, async () => {
        const fake = await new Fake(row).start();
        const redlock = new Redlock(fake.url, {
          nodeTimeout: nodeTimeoutFor(row),
          connectTimeout: 2000,
        });
        try {
          await scenario(row, redlock, fake);
          assert.ok(!inspect(redlock, { depth: null }).includes("s3cret"));
        } finally {
          redlock.close();
          await fake.stop();
        }
      });
    }
  });
}

each(
  "acquire ends after its wait",
  singleReplies,
  (_, redlock) => failsWith(() => redlock.lock("job", { wait: 1000 }).acquire(), []),
  { concurrency: true },
);

each(
  "after an invalid reply to a plain SET the client sends a script",
  attempts,
  async (_, redlock, fake) => {
    // On a busy machine the first connection may outlast its vote. Then the client sends the script first.
    for (let times = 0; times < 20 && !fake.said; times++) {
      const lease = await redlock.lock("job").acquire();
      // Its reply to a SET and a read never changes, so the script granted this.
      assert.ok(lease.held);
      lease.detach();
    }
    assert.ok(fake.said);
  },
  { concurrency: true },
);

each(
  "every command reports the cause",
  singleReplies,
  async (row, redlock) => {
    const lock = redlock.lock("job");
    await Promise.all([
      failsWith(() => lock.inspect(), row.cause),
      failsWith(() => lock.tryAcquire(), row.cause),
      failsWith(() => redlock.attach("job", "token"), row.cause),
      failsWith(() => redlock.forceRelease("job"), row.cause),
    ]);
  },
  { concurrency: MAX_CONCURRENT },
);

each(
  "an invalid reply neither extends nor releases a lease",
  singleReplies.filter(({ to }) => to === "EVALSHA"),
  async (row, redlock, fake) => {
    fake.failing = false;
    const lease = await redlock.lock("job", { ttl: 30_000, renew: false }).acquire();
    fake.failing = true;
    await failsWith(() => lease.extend(30_000), row.cause);
    assert.equal(lease.held, true);
    await failsWith(() => lease.release(), row.cause);
  },
  { concurrency: MAX_CONCURRENT },
);

each(
  "an endless reply does not use much memory or affect other servers",
  rows.filter((row) => !singleReplies.includes(row) || row.say.includes("000000")),
  async (row, redlock) => {
    const other = await new Redlock(shared.server.url).lock(uniqueName(), { ttl: 2000 }).acquire();
    const before = process.memoryUsage.rss();
    await failsWith(() => redlock.lock("job").tryAcquire(), row.cause);
    assert.ok(process.memoryUsage.rss() - before < 100 * MB);
    other.ensureHeld();
    await other.release();
  },
);
