// Started by hooks.test.mjs: node hooks.mjs HOOK. Changes a hook or a global of Node.js as HOOK says, then uses locks in
// every way, and prints the results as JSON. None of these changes may break a lock.
import { setImmediate as turn } from "node:timers/promises";

const [hook] = process.argv.slice(2);
/** Each changes one hook or global, as programs and their libraries do. */
const hooks = {
  none: () => undefined,
  callSites: () => {
    Error.prepareStackTrace = (_, sites) => sites;
  },
  throws: () => {
    Error.prepareStackTrace = () => {
      throw new Error("from prepareStackTrace");
    };
  },
  nothing: () => {
    Error.prepareStackTrace = () => undefined;
  },
  symbol: () => {
    Error.prepareStackTrace = () => Symbol("stack");
  },
  noLimit: () => {
    Error.stackTraceLimit = "none";
  },
  deletedLimit: () => {
    delete Error.stackTraceLimit;
  },
  refusedLimit: () => {
    Object.defineProperty(Error, "stackTraceLimit", { value: 7, writable: false });
  },
  noCapture: () => {
    Error.captureStackTrace = () => {
      throw new Error("from captureStackTrace");
    };
  },
  frozenError: () => Object.freeze(Error),
  frozen: () => {
    for (const each of [Error, TypeError, Promise, Map, Array, Object, Function, AbortSignal]) {
      Object.freeze(each.prototype);
      Object.freeze(each);
    }
    Object.freeze(process.report);
  },
  emitWarning: () => {
    process.emitWarning = () => {
      throw new Error("from emitWarning");
    };
  },
  stderr: () => {
    process.stderr.write = () => {
      throw new Error("from stderr");
    };
  },
};

/** Returns the first true result. The caller limits the time of the whole process. */
async function eventually(condition) {
  for (;;) {
    const value = await condition();
    if (value) return value;
    await turn();
  }
}

hooks[hook]();
/** Messages of exceptions that a hook raised outside of any call. */
const thrown = [];
process.on("uncaughtException", ({ message }) => thrown.push(message));
const warnings = [];
process.on("warning", ({ name, code, message }) => warnings.push({ name, code, message }));
const limit = Error.stackTraceLimit;

const { Redlock } = await import("redlock-native");
const client = new Redlock("memory://hooks");
/** The fields of an error that the test checks. */
const failure = (error) => ({
  name: error.name,
  kind: error.kind,
  acquiredAt: error.acquiredAt,
});
const lock = client.lock("job", { ttl: 1000 });
const lease = await lock.acquire();
// The error has the line that holds the lock, once a timer has read the stack of that call.
const refused = await eventually(async () => {
  const error = await lock.acquire({ wait: 0 }).catch(failure);
  return error.acquiredAt !== undefined && error;
});
const invalid = await client.using("job", { ttl: 1 }, () => 1).catch(failure);
const used = await client.using("other", () => "used");
const held = lease.held;
await lease.release();
const losing = await lock.acquire();
let reason;
losing.onLost((error) => {
  reason = failure(error);
});
await client.forceRelease("job");
await eventually(() => reason);
// This loss has no listener, so a warning is emitted.
await client.lock("warned").acquire();
await client.forceRelease("warned");
await eventually(() => warnings.length > 0 || thrown.includes("from emitWarning"));
const stats = client.stats();
const changed = Error.stackTraceLimit !== limit;
console.log(
  JSON.stringify({ refused, invalid, used, held, reason, stats, warnings, thrown, changed }),
);
