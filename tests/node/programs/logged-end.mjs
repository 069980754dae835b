// Logs a lease that is released at the end of the program, which returns or exits.
import { writeSync } from "node:fs";
import { onLog, Redlock } from "redlock-native";

onLog(({ event }) => writeSync(1, `${event}\n`));
const lease = await new Redlock("memory://").lock("job").acquire();
await lease.release();
if (process.argv[2] === "exits") process.exit(0);
