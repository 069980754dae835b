// Panics in the native part, many times, beside a lease that must stay unaffected. Prints the results.
import { createRequire } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";
import { Redlock } from "redlock-native";

// The package's own connection to the native part is not exported, so its file is loaded directly.
const require = createRequire(import.meta.url);
const { attempt, settled, unwrap } = require("../../../bindings-node/dist/runtime/results.js");
const { native } = require("../../../bindings-node/dist/runtime/runtime.js");

function told(error) {
  return { name: error.name, kind: error.kind, message: error.message };
}

function now() {
  try {
    return attempt(() => native().__panicForTests());
  } catch (error) {
    return told(error);
  }
}

async function later() {
  const outcome = await settled((slot) => native().__panicForTests(slot));
  try {
    return unwrap(outcome);
  } catch (error) {
    return told(error);
  }
}

const redlock = new Redlock("memory://");
const lease = await redlock.lock("beside", { ttl: 1000 }).acquire();
const sync = now();
const futures = await Promise.all([later(), later(), later()]);
const onceMore = [now(), await later()];
await sleep(1500);
const next = await redlock.lock("afterwards").acquire();
const result = { sync, futures, onceMore, renewed: lease.held, next: next.held };
await Promise.all([lease.release(), next.release()]);
console.log(JSON.stringify(result));
