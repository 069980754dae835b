// Loads copies of the package, uses them and lets them go; prints how many are still there, and what else is. Run with --expose-gc.
// The arguments: how a copy is loaded, how many, the node.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { createContext, runInContext } from "node:vm";
import { Redlock } from "redlock-native";

const [how, count, node] = process.argv.slice(2);
const copies = Number(count);
const require = createRequire(import.meta.url);
const entry = require.resolve("redlock-native");

/** As test runners do: every file anew, in a context of its own; only the binary is the process's. */
function inContext() {
  const context = createContext({ process, performance, AbortController });
  const loaded = new Map();
  const load = (file) => {
    if (loaded.has(file)) return loaded.get(file).exports;
    const module = { exports: {} };
    loaded.set(file, module);
    const next = (id) => {
      const place = id.startsWith(".") ? resolve(dirname(file), id) : id;
      return place.endsWith(".js") ? load(place) : require(place);
    };
    const text = `(function (exports, require, module) {${readFileSync(file, "utf8")}\n})`;
    runInContext(text, context, file)(module.exports, next, module);
    return module.exports;
  };
  return load(entry);
}

/** As servers do that reload their code, with the binary or without. */
function reloaded() {
  // Another parent each time: it would keep all its children.
  const require = createRequire(import.meta.url);
  const old = Object.keys(require.cache).filter((file) => file.startsWith(dirname(entry)));
  for (const file of old) {
    if (how === "reloaded" || !file.endsWith(".node")) delete require.cache[file];
  }
  return require(entry);
}

/** Every kind of thing that a copy can be left with, a held and watched lease among them. */
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
  const copy = how === "context" ? inContext() : reloaded();
  refs.push(new WeakRef(copy.Redlock));
  await use(copy, at);
}

/** Open files, threads and what keeps a process alive; none of them where there is no /proc. */
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
// Nobody renews what a collected copy held.
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
