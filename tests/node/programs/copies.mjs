// Loads copies of the package, uses them and drops them. Prints how many copies and other resources remain. Run with
// --expose-gc. The arguments are the way to load a copy, the number of copies, and the node.
import { existsSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Redlock } from "redlock-native";
import { loadInContext, newContext } from "../contexts.mjs";

const [how, count, node] = process.argv.slice(2);
const copies = Number(count);
const require = createRequire(import.meta.url);
const entry = require.resolve("redlock-native");

/** Like servers that reload their code, with the binary or without. */
function reloaded() {
  // A different parent each time, because a parent keeps all its children.
  const require = createRequire(import.meta.url);
  const old = Object.keys(require.cache).filter((file) => file.startsWith(dirname(entry)));
  for (const file of old) {
    if (how === "reloaded" || !file.endsWith(".node")) delete require.cache[file];
  }
  return require(entry);
}

/** Leaves a copy with every kind of resource, including a held and watched lease. */
async function use({ Redlock }, at) {
  const redlock = new Redlock(node);
  const name = `copy-${process.pid}-${at}`;
  const lock = redlock.lock(name, { ttl: 500 });
  await lock.using(({ signal }) => signal.aborted);
  const stop = new AbortController();
  const lease = await lock.acquire({ signal: stop.signal });
  const refused = lock.acquire({ signal: stop.signal }).catch((error) => error.name);
  stop.abort();
  if ((await refused) !== "AbortError") throw new Error(await refused);
  if (at % 2 === 0) return void lease.onLost(() => console.error("told"));
  await redlock.forceRelease(name);
  await lock.tryAcquire();
}

const refs = [];
async function turn(at) {
  const copy = how === "context" ? loadInContext(entry, newContext()) : reloaded();
  refs.push(new WeakRef(copy.Redlock));
  await use(copy, at);
}

/** Open files, threads, and handles that keep a process alive. Empty on a system without /proc. */
function resources() {
  const count = (folder) => (existsSync(folder) ? readdirSync(folder).length : 0);
  const handles = process.getActiveResourcesInfo().length;
  return { files: count("/proc/self/fd"), threads: count("/proc/self/task"), handles };
}

process.removeAllListeners("warning");
await turn(copies);
const first = resources();
const heap = process.memoryUsage().heapUsed;
for (let at = 0; at < copies; at += 1) await turn(at);
let alive = copies;
for (let round = 0; round < 50 && alive > 0; round += 1) {
  await sleep(20);
  global.gc();
  alive = refs.filter((ref) => ref.deref() !== undefined).length;
}
// The lease of a collected copy is not renewed.
await sleep(1000);
const last = resources();
const grown = Object.fromEntries(
  Object.keys(first).map((what) => [what, last[what] - first[what]]),
);
const held = await Promise.all(
  Array.from({ length: copies }, async (_, at) => {
    const lease = await new Redlock(node).lock(`copy-${process.pid}-${at}`).tryAcquire();
    await lease?.release();
    return lease === null;
  }),
);
const stuck = held.filter(Boolean).length;
console.log(
  JSON.stringify({ alive, stuck, ...grown, heap: process.memoryUsage().heapUsed - heap }),
);
