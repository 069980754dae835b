// Logs a client's events as pino's JSON lines: `logger.mjs URL`. Holds a lock, and acquires another for each line of input.
import { createInterface } from "node:readline";
import pino from "pino";
import { LockError, onLog, Redlock } from "redlock-native";

const formatters = { level: (level) => ({ level }) };
const log = pino({ base: null, messageKey: "message", formatters });
const write = ({ level, message, fields, logger }) =>
  log[level].call(log, { logger, fields }, message);
onLog(write, { level: "info" });
const client = new Redlock(process.argv[2]);
await client.lock("job", { ttl: 2_000 }).acquire();
log.info("ready");
for await (const _ of createInterface({ input: process.stdin })) {
  try {
    await client.using("other", () => undefined);
  } catch (error) {
    if (!(error instanceof LockError)) throw error;
  }
}
client.close();
process.exit(0);
