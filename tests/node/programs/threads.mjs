// Starts worker threads that load the package, use it in every way and end in every way. Reports the remaining
// resources. Run with --expose-gc. The arguments are the node and the number of threads in a burst.
import { once } from "node:events";
import { readdirSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import { Redlock } from "redlock-native";

const [node, count] = [process.argv[2], Number(process.argv[3])];
const file = new URL("worker.mjs", import.meta.url);
const redlock = new Redlock(node);
const ends = { exit: 0, terminated: 0 };

/** Ends normally, immediately in the middle of a call, or by termination while it waits or holds. */
async function thread(at) {
  const task = ["use", "exit", "hold", "wait"][at % 4];
  const name = task === "wait" ? "taken" : `thread-${at}`;
  const worker = new Worker(file, { workerData: { node, name, task } });
  const exit = once(worker, "exit");
  await Promise.race([once(worker, "message"), exit]);
  if (at % 4 < 2) {
    await exit;
    ends.exit += 1;
  } else {
    await worker.terminate();
    ends.terminated += 1;
  }
}

async function burst() {
  for (let at = 0; at < count; at += 2) await Promise.all([thread(at), thread(at + 1)]);
}

async function measure() {
  for (let turn = 0; turn < 5; turn += 1) {
    await sleep(100);
    global.gc();
  }
  return {
    rss: process.memoryUsage.rss(),
    files: readdirSync("/proc/self/fd").length,
    threads: readdirSync("/proc/self/task").length,
    handles: process.getActiveResourcesInfo().length,
  };
}

const taken = await redlock.lock("taken", { ttl: 60_000 }).acquire();
await burst();
const before = await measure();
await burst();
const between = await measure();
await burst();
const after = await measure();
const held = taken.held;
await taken.release();
console.log(JSON.stringify({ before, between, after, ends, held }));
