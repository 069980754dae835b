// Uses locks in every way while the program's own hooks or frozen globals are in place. Prints the results.
import { setImmediate as turn } from "node:timers/promises";

const [how] = process.argv.slice(2);
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
async function eventually(ask) {
  for (;;) {
    const answer = await ask();
    if (answer) return answer;
    await turn();
  }
}

hooks[how]();
const thrown = [];
process.on("uncaughtException", ({ message }) => thrown.push(message));
const warnings = [];
process.on("warning", ({ name, code, message }) => warnings.push({ name, code, message }));
const limit = Error.stackTraceLimit;

const { Redlock } = await import("redlock-native");
const client = new Redlock("memory://hooks");
const failure = (error) => ({ name: error.name, kind: error.kind, message: error.message });
const lock = client.lock("job", { ttl: 1000 });
const lease = await lock.acquire();
// A timer reads the stack of the call site.
const refused = await eventually(async () => {
  const error = await lock.acquire({ wait: 0 }).catch(failure);
  return error.message.includes("acquired at") && error;
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
