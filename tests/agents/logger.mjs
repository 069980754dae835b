// Logs a client's events as pino's JSON lines: `logger.mjs URL`. Ends with its input.
import { setTimeout as sleep } from "node:timers/promises";
import pino from "pino";
import { onLog, Redlock } from "redlock-native";

const formatters = { level: (level) => ({ level }) };
const log = pino({ base: null, messageKey: "message", formatters });
const write = ({ level, message, fields, logger }) =>
  log[level].call(log, { logger, fields }, message);
onLog(write, { level: "info" });
let ended = false;
process.stdin.resume().on("end", () => {
  ended = true;
});
const client = new Redlock(process.argv[2]);
await client.lock("job", { ttl: 2_000 }).acquire();
log.info("ready");
while (!ended) {
  const other = await client
    .lock("other")
    .tryAcquire()
    .catch(({ kind }) => void kind);
  await other?.release().catch(() => undefined);
  await sleep(50);
}
client.close();
process.exit(0);
