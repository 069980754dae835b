// Checks a binary for another processor under emulation, without a test runner. Usage: node emulated.mjs PACKAGE URL
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";

const [folder, url] = process.argv.slice(2);
const { Redlock } = await import(pathToFileURL(`${folder}/bindings-node/index.mjs`).href);
const client = new Redlock([url]);

const job = client.lock("job");
const lease = await job.acquire();
assert.ok(lease.held);
assert.equal(await job.tryAcquire(), null);
await lease.release();

const tokens = [];
for (let turn = 0; turn < 2; turn++) {
  await client.using("fenced", { fencing: true }, async (held) => tokens.push(held.fencingToken));
}
assert.ok(tokens[0] < tokens[1]);

// Renewals keep the lease for longer than its TTL.
await client.using("renewed", { ttl: 3000 }, async (held) => {
  await sleep(4000);
  assert.ok(held.held);
});

// Eight tasks hold one lock in turn.
let [inside, done] = [0, 0];
const task = () =>
  client.using("tasks", { wait: 60_000 }, async () => {
    assert.equal(++inside, 1);
    await sleep(1);
    inside--;
    done++;
  });
await Promise.all(Array.from({ length: 8 }, task));
assert.equal(done, 8);

// A listener for a loss does not keep the process alive, but a timer does.
const timer = setInterval(() => {}, 1000);
const lost = await client.lock("lost", { ttl: 5000 }).acquire();
const notified = new Promise((resolve) => lost.signal.addEventListener("abort", resolve));
await client.forceRelease("lost");
await notified;
clearInterval(timer);
assert.equal(lost.signal.reason.reason, "missing");

// The process must exit cleanly while it holds a lock and another acquire waits for it.
await client.lock("kept", { ttl: 5000 }).acquire();
client
  .lock("kept")
  .acquire()
  .catch(() => {});
console.log(process.arch, process.versions.node, "ok");
process.exit(0);
