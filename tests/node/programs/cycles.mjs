// Acquires and releases many times, with every way for a call to end, and reports the remaining resources.
import { getEventListeners } from "node:events";
import { readdirSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { Redlock } from "redlock-native";

const [node, rounds] = [process.argv[2], Number(process.argv[3])];
const CALLERS = 10;
const redlock = new Redlock(node);
const free = Array.from({ length: CALLERS }, (_, at) => redlock.lock(`free-${at}`));
const shared = redlock.lock("shared", { ttl: 5000 });
/** Like the signal of a service that ends once. Every call listens to it, and none keeps its listener. */
const end = new AbortController();
const counts = { released: 0, aborted: 0, refused: 0, lost: 0 };

/** One cycle. Most are plain, and some are fenced, refused, lost, or aborted at different times. */
async function cycle(at, lock) {
  if (at % 10 === 3) return await abortedCycle(at);
  if (at % 50 === 7) return await refusedCycle();
  if (at % 50 === 9) return await lostCycle(at);
  const { signal } = end;
  if (at % 4 === 1) await lock.using({ signal }, (lease) => lease.signal.aborted);
  else {
    const lease = await lock.acquire({ signal: at % 4 === 2 ? signal : undefined });
    if (at % 4 === 0) void lease.signal;
    await lease.release();
  }
  counts.released += 1;
}

async function abortedCycle(at) {
  const stop = new AbortController();
  const pending = shared.acquire({ signal: stop.signal });
  if (at % 20 === 3) setImmediate(() => stop.abort());
  else stop.abort();
  const lease = await pending.catch(() => undefined);
  await lease?.release();
  counts.aborted += 1;
}

async function refusedCycle() {
  const lease = await shared.acquire();
  await shared.acquire({ wait: 0 }).catch((error) => {
    if (error.kind !== "timeout") throw error;
    counts.refused += 1;
  });
  await lease.release();
}

async function lostCycle(at) {
  const name = `lost-${at}`;
  const lease = await redlock.lock(name, { fencing: true }).acquire();
  const lost = new Promise((resolve) => lease.onLost(resolve));
  await redlock.forceRelease(name);
  await lost;
  counts.lost += 1;
}

async function burst(cycles) {
  let at = 0;
  const caller = async (lock) => {
    while (at < cycles) await cycle(at++, lock);
  };
  await Promise.all(free.map(caller));
}

/** Of objects that live as long as the process. */
function listeners() {
  const own = process.eventNames().reduce((sum, name) => sum + process.listenerCount(name), 0);
  return own + getEventListeners(end.signal, "abort").length;
}

/** Waits until every notification is delivered and garbage is collected. */
async function measure() {
  for (let turn = 0; turn < 5; turn += 1) {
    await sleep(50);
    global.gc();
  }
  return {
    rss: process.memoryUsage.rss(),
    heap: process.memoryUsage().heapUsed,
    files: readdirSync("/proc/self/fd").length,
    threads: readdirSync("/proc/self/task").length,
    handles: process.getActiveResourcesInfo().length,
    leases: redlock.leases().length,
    listeners: listeners(),
  };
}

// Each loss emits a warning. The console output is not part of the measurement.
process.removeAllListeners("warning");
process.on("warning", () => undefined);

await burst(rounds);
const before = await measure();
await burst(rounds);
const between = await measure();
await burst(rounds);
const after = await measure();
console.log(JSON.stringify({ before, between, after, counts }));
