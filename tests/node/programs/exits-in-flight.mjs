// Ends the process while acquires are in flight. The arguments are the URL of a node, the number of acquires, and how
// it ends: by "exit", in the handler of a signal ("SIGTERM"), or by an uncaught "error". Prints "sent" before.
import { Redlock } from "redlock-native";

const [node, count, ending] = process.argv.slice(2);
const client = new Redlock(node, { clientName: "left-in-flight" });
const acquire = (name) => client.lock(name, { ttl: 60_000 }).acquire();
// Afterwards the connection is open.
await (await acquire("first")).release();
const end = () => {
  if (ending === "error") throw new Error("on purpose");
  process.exit(0);
};
process.once("SIGTERM", end);
for (let at = 0; at < Number(count); at += 1) acquire(`left-${at}`).catch(() => undefined);
console.log("sent");
if (ending !== "SIGTERM") end();
