// Checks a binary for another processor under emulation, without a test runner: emulated.mjs PACKAGE URL.
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

// Renewed for longer than its TTL.
await client.using("renewed", { ttl: 3000 }, async (held) => {
  await sleep(4000);
  assert.ok(held.held);
});

let [inside, done] = [0, 0];
const one = () =>
  client.using("tasks", { wait: 60_000 }, async () => {
    assert.equal(++inside, 1);
    await sleep(1);
    inside--;
    done++;
  });
await Promise.all(Array.from({ length: 8 }, one));
assert.equal(done, 8);

// Waiting for a loss does not keep a process alive. Work does.
const work = setInterval(() => {}, 1000);
const taken = await client.lock("lost", { ttl: 5000 }).acquire();
const told = new Promise((resolve) => taken.signal.addEventListener("abort", resolve));
await client.forceRelease("lost");
await told;
clearInterval(work);
assert.equal(taken.signal.reason.reason, "missing");

// One held lock and one waiter when the program ends.
await client.lock("kept", { ttl: 5000 }).acquire();
client
  .lock("kept")
  .acquire()
  .catch(() => {});
console.log(process.arch, process.versions.node, "ok");
process.exit(0);
