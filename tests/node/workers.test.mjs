// Worker threads: each has separate state, and may be terminated at any time.
import assert from "node:assert/strict";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import { Redlock } from "redlock-native";
import { eventually, program, serverForSuite, uniqueName } from "./helper.mjs";
import { describe, slow, test } from "./testing.mjs";

const shared = serverForSuite();

function start(task, name) {
  const file = new URL("programs/worker.mjs", import.meta.url);
  return new Worker(file, { workerData: { node: shared.server.url, name, task } });
}

describe("a worker thread", () => {
  test("acquires and releases beside the main thread and then exits", async () => {
    const name = uniqueName();
    const redlock = new Redlock(shared.server.url);
    const workers = [1, 2, 3].map(() => start("use", name));
    const ends = workers.map((worker) => once(worker, "exit"));
    const tokens = await Promise.all(
      workers.map(async (worker) => (await once(worker, "message"))[0]),
    );
    assert.equal(new Set(tokens).size, 3);
    for (const [code] of await Promise.all(ends)) assert.equal(code, 0);
    await (await redlock.lock(name).acquire({ wait: 20_000 })).release();
  });

  test("terminated while it waits leaves no key", async () => {
    const { server } = shared;
    const name = uniqueName();
    const lock = new Redlock(server.url).lock(name);
    const lease = await lock.acquire();
    const worker = start("wait", name);
    await once(worker, "message");
    const connected = async () => (await server.cli("CLIENT", "LIST")).includes(` name=${name} `);
    await eventually(async () => assert.ok(await connected()));
    await worker.terminate();
    // Without a connection, it takes no lock that is released later.
    await eventually(async () => assert.ok(!(await connected())));
    await lease.release();
    assert.equal(await server.cli("EXISTS", lock.key), "0");
    await (await lock.tryAcquire()).release();
  });

  for (const task of ["hold", "body"]) {
    test(`terminated in ${task} stops renewing, and the key expires`, async () => {
      const { server } = shared;
      const name = uniqueName();
      const worker = start(task, name);
      const [token] = await once(worker, "message");
      await worker.terminate();
      const lock = new Redlock(server.url).lock(name);
      assert.equal(await server.cli("GET", lock.key), token);
      const next = await lock.acquire({ wait: 5000 });
      await next.release();
    });
  }

  slow(
    "it ends workers at many real moments",
    "terminated often under load does not affect this thread",
    async () => {
      const name = uniqueName();
      for (let round = 0; round < 10; round++) {
        const workers = [start("use", name), start("use", uniqueName())];
        await sleep(20 + round * 10);
        await Promise.all(workers.map((worker) => worker.terminate()));
      }
      const lock = new Redlock(shared.server.url).lock(name);
      await (await lock.acquire({ wait: 5000 })).release();
    },
  );

  slow(
    "it counts what many workers leave behind",
    "started and ended many times leaks nothing",
    async () => {
      const options = { flags: ["--expose-gc"], timeout: 60_000 };
      const ended = await program("threads", [shared.server.url, 20], options);
      assert.equal(ended.code, 0, ended.stderr);
      const seen = JSON.parse(ended.lines.at(-1));
      const { before, between, after } = seen;
      assert.deepEqual(seen.ends, { exit: 30, terminated: 30 });
      assert.equal(seen.held, true);
      for (const what of ["files", "threads", "handles"]) {
        assert.ok(after[what] <= before[what], `${what}: ${JSON.stringify(seen)}`);
      }
      // The least growth of two bursts, because the allocator's behaviour shows only in some.
      const growth = Math.min(between.rss - before.rss, after.rss - between.rss);
      assert.ok(growth < 8 * 2 ** 20, JSON.stringify(seen));
    },
  );
});
