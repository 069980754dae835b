// Runs the Node.js recipes of docs/how-to unchanged, each in two processes over one Redis. They are separate
// from the other tests because they download the frameworks. Run `make test-frameworks-node`.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { Redlock } from "redlock-native";
import { eventually } from "../../node/helper.mjs";
import { afterEach, beforeEach, describe, test } from "../../node/testing.mjs";
import { ends, post, RECIPES, Workspace } from "./workspace.mjs";

let workspace;
beforeEach(async () => {
  workspace = await Workspace.make();
});
afterEach(() => workspace.end());

const both = (file) => Promise.all([workspace.serve(file), workspace.serve(file)]);

/** Serves one request at a time across both servers. A caller that waits too long gets the busy response. */
async function servesOneAtATime(servers, path, well = 200) {
  const urls = [0, 1, 0, 1, 0, 1, 0, 1].map((at) => `${servers[at].url}/${path}/1`);
  const answers = await Promise.all(urls.map((url) => post(url)));
  assert.deepEqual(
    [...new Set(answers.map(({ status }) => status))],
    [well],
    JSON.stringify(answers),
  );
  assert.deepEqual(await workspace.seen(), { most: 1, count: 8 });
}

async function saysThatItIsBusy(url, name) {
  const held = await new Redlock(workspace.server.url).lock(name).acquire();
  assert.deepEqual(await post(url), { status: 409, body: { error: "busy" } });
  await held.release();
}

/** Both servers receive the event repeatedly and book it once. */
async function booksOnce(servers) {
  const payment = { id: "p1", amount: 7 };
  const told = [0, 1, 0, 1, 0, 1].map((at) => post(`${servers[at].url}/payments`, payment));
  for (const { body } of await Promise.all(told)) assert.deepEqual(body, { ...payment, number: 1 });
}

/** A request in progress is answered. The server accepts no other, and ends without a remaining lock. */
async function endsInOrder(servers, well = 200, by = [0, null]) {
  const running = post(`${servers[0].url}/orders/2`);
  await eventually(async () => assert.equal(await workspace.server.cli("GET", "inside"), "1"));
  const ended = servers.map(({ child }) => ends(child, by));
  assert.equal((await running).status, well);
  await Promise.all(ended);
  assert.equal(await workspace.locks(), "");
}

for (const [name, file] of [
  ["Express", "express_app.mjs"],
  ["Fastify", "fastify_app.mjs"],
]) {
  describe(name, () => {
    test("serves one at a time, and says when it is busy", async () => {
      const servers = await both(file);
      await servesOneAtATime(servers, "orders");
      await saysThatItIsBusy(`${servers[1].url}/orders/1`, "order:1");
    });

    test("books a payment once, however often it is told", async () => {
      await booksOnce(await both(file));
    });

    test("responds with 503 if Redis is down", async () => {
      const { url } = await workspace.serve(file);
      workspace.server.process.kill("SIGKILL");
      const answer = await post(`${url}/orders/1`);
      assert.deepEqual(answer, { status: 503, body: { error: "unavailable" } });
    });

    test("reports a lost lock, and no error if the client disconnects", async () => {
      const { url, child } = await workspace.serve(file, { WORK: "60000" });
      const held = (key) =>
        eventually(async () => assert.equal(await workspace.server.cli("EXISTS", key), "1"));
      const lost = post(`${url}/orders/3`);
      await held("lock:order:3");
      await workspace.server.cli("DEL", "lock:order:3");
      assert.deepEqual(await lost, { status: 503, body: { error: "lost" } });
      const { said } = child;
      const controller = new AbortController();
      const gone = fetch(`${url}/orders/4`, { method: "POST", signal: controller.signal });
      await held("lock:order:4");
      controller.abort();
      await assert.rejects(gone);
      await eventually(async () => assert.equal(await workspace.locks(), ""));
      // It still serves, after everything that followed from the abort.
      const next = post(`${url}/orders/5`);
      await held("lock:order:5");
      await workspace.server.cli("DEL", "lock:order:5");
      assert.equal((await next).status, 503);
      assert.equal(child.said, said);
    });

    test("ends in order while a request runs", async () => {
      await endsInOrder(
        await Promise.all([workspace.serve(file, { WORK: "1000" }), workspace.serve(file)]),
      );
    });
  });
}

describe("NestJS", () => {
  /** Its response to a POST. */
  const CREATED = 201;
  const file = join("out", "nest_app.js");
  beforeEach(() => workspace.compile("nest_app.ts", "redlock.module.ts"));

  test("a provider's client, a decorated provider and a decorated route", async () => {
    const servers = await both(file);
    await servesOneAtATime(servers, "orders", CREATED);
    await saysThatItIsBusy(`${servers[1].url}/orders/1`, "order:1");
    for (const path of ["reports", "direct"]) {
      await workspace.server.cli("DEL", "seen");
      await servesOneAtATime(servers, path, CREATED);
    }
    await saysThatItIsBusy(`${servers[0].url}/reports/1`, "report:1");
    await saysThatItIsBusy(`${servers[0].url}/direct/1`, "direct:1");
  });

  test("reports a lost lock", async () => {
    const { url } = await workspace.serve(file, { WORK: "60000" });
    const lost = post(`${url}/orders/3`);
    await eventually(async () =>
      assert.equal(await workspace.server.cli("EXISTS", "lock:order:3"), "1"),
    );
    await workspace.server.cli("DEL", "lock:order:3");
    assert.deepEqual(await lost, { status: 503, body: { error: "lost" } });
  });

  test("ends in order while a request runs", async () => {
    const servers = await Promise.all([
      workspace.serve(file, { WORK: "1000" }),
      workspace.serve(file),
    ]);
    // Ends with the signal itself after an orderly shutdown.
    await endsInOrder(servers, CREATED, [null, "SIGTERM"]);
  });
});

test("BullMQ: one job of an account at a time, over two workers", async () => {
  const workers = [workspace.start("bullmq_worker.mjs"), workspace.start("bullmq_worker.mjs")];
  await Promise.all(
    workers.map((worker) => eventually(() => assert.match(worker.said, /working/), 30_000)),
  );
  // As in the recipe.
  const from = createRequire(pathToFileURL(join(import.meta.dirname, "workspace.mjs")));
  const { Queue } = from("bullmq");
  const { Redis } = from("ioredis");
  const connection = new Redis(workspace.server.url, { maxRetriesPerRequest: null });
  const queue = new Queue("invoices", { connection });
  await queue.addBulk(
    Array.from({ length: 8 }, () => ({ name: "invoice", data: { account: "a" } })),
  );
  await eventually(async () => assert.equal(await queue.getCompletedCount(), 8), 60_000);
  assert.equal(await queue.getFailedCount(), 0);
  assert.deepEqual(await workspace.seen(), { most: 1, count: 8 });
  await queue.close();
  await connection.quit();
  await Promise.all(workers.map((worker) => ends(worker)));
  assert.equal(await workspace.locks(), "");
});

test("a cron job on two hosts runs each tick once", async () => {
  const hosts = [workspace.start("cron_jobs.mjs"), workspace.start("cron_jobs.mjs")];
  const ticks = () => hosts.map(({ said }) => said.match(/worked report/g)?.length ?? 0);
  await eventually(() => assert.ok(ticks()[0] + ticks()[1] >= 3), 30_000);
  const begun = performance.now();
  const before = ticks()[0] + ticks()[1];
  await sleep(3_000);
  const after = ticks()[0] + ticks()[1];
  // At most one run per second.
  assert.ok(after - before <= (performance.now() - begun) / 1_000 + 1, `${after - before}`);
  assert.equal((await workspace.seen()).most, 1);
  await Promise.all(hosts.map((host) => ends(host)));
});

test("every recipe of the pages is run by some test", () => {
  // The bundlers' tests build and run the recipe for Next.js.
  const run = [
    "express_app.mjs",
    "redlock_plugin.mjs",
    "fastify_app.mjs",
    "redlock.module.ts",
    "nest_app.ts",
  ];
  const others = ["route.js", "bullmq_worker.mjs", "cron_jobs.mjs"];
  assert.deepEqual([...RECIPES.keys()].sort(), [...run, ...others].sort());
});
