// Loads copies of the package, each within a separate async context. Prints how many of the contexts' stores remain
// after the copies are dropped. Run with --expose-gc. The argument is the number of copies.
import { AsyncLocalStorage } from "node:async_hooks";
import { createRequire } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";

const require = createRequire(import.meta.url);
const entry = require.resolve("redlock-native");
const stores = [];

/** Like a test runner whose tests load the package, or a server whose first request does. */
function load() {
  const store = { request: stores.length };
  stores.push(new WeakRef(store));
  new AsyncLocalStorage().run(store, () => {
    const copies = Object.keys(require.cache).filter((file) => file.includes("bindings-node"));
    for (const file of copies) if (!file.endsWith(".node")) delete require.cache[file];
    createRequire(import.meta.url)(entry);
  });
}

// The first copy also loads the binary. All but the last copy are dropped. The last one is in use, and its context has
// ended.
for (let at = 0; at < Number(process.argv[2]); at += 1) load();
const left = () => stores.filter((store) => store.deref() !== undefined).length;
for (let round = 0; round < 50 && left() > 0; round += 1) {
  await sleep(20);
  global.gc();
}
console.log(left());
