// Listeners for background events. One throws, and one blocks the thread until the queue is full.
import diagnostics from "node:diagnostics_channel";
import { Redlock } from "redlock-native";

let thrown = 0;
process.on("uncaughtException", ({ message }) => {
  if (message !== "theirs") throw new Error(message);
  thrown += 1;
});
diagnostics.subscribe("redlock:renew", () => {
  throw new Error("theirs");
});
const client = new Redlock("memory://");
const leases = await Promise.all(
  Array.from({ length: 200 }, (_, at) => client.lock(`job-${at}`, { ttl: 300 }).acquire()),
);
const end = performance.now() + 2_000;
while (performance.now() < end);
await new Promise((resolve) => setTimeout(resolve, 200));
const held = leases.every((lease) => lease.held);
client.close();
console.log(held && thrown > 0 ? "held" : `${held} ${thrown}`);
process.exit(0);
