// Loads an entry point in one context after the other, and runs a body under a lock there. Only the newest one is in
// use. Prints how many of the others remained at most. Run with --expose-gc. The arguments are the number of contexts
// and the entry point.
import { createRequire } from "node:module";
import { setImmediate as turn } from "node:timers/promises";
import { runInContext } from "node:vm";
import { loadInContext, newContext } from "../contexts.mjs";

const [count, name] = process.argv.slice(2);
const entry = createRequire(import.meta.url).resolve(name);
const refs = [];
let newest;
let most = 0;

/** The context keeps its `Function`, which keeps the context. */
async function load() {
  const context = newContext();
  newest = { exports: loadInContext(entry, context), ofContext: runInContext("Function", context) };
  refs.push(new WeakRef(newest.ofContext));
  const { Redlock, TestRedlock } = newest.exports;
  const redlock = TestRedlock === undefined ? new Redlock("memory://") : new TestRedlock();
  await redlock.lock(`sandbox-${refs.length}`).using(() => undefined);
  redlock.close();
}

const remaining = () => refs.slice(0, -1).filter((ref) => ref.deref() !== undefined).length;

for (let at = 0; at < Number(count); at += 1) {
  await load();
  // What a collection finalizes may free what the next one collects.
  for (let round = 0; round < 50 && remaining() > 0; round += 1) {
    await turn();
    global.gc();
  }
  most = Math.max(most, remaining());
}
console.log(most);
