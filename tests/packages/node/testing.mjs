import { createRequire } from "node:module";
import { LockTimeout, Redlock } from "redlock-native";
import { TestRedlock } from "redlock-native/testing";

const require = createRequire(import.meta.url);
const common = require("redlock-native/testing");
if (common.TestRedlock !== TestRedlock) throw new Error("two copies of redlock-native/testing");
const redlock = new TestRedlock();
if (!(redlock instanceof Redlock && redlock instanceof require("redlock-native").Redlock))
  throw new Error("two copies of redlock-native");
const lease = await redlock.lock("job").acquire();
const error = await redlock
  .lock("job", { wait: 0 })
  .acquire()
  .catch((thrown) => thrown);
if (!(error instanceof LockTimeout)) throw error;
console.log(lease.key, lease.held);
await lease.release();
await redlock.shutdown();
