// A program with nine exit listeners. With that of Node.js itself they are ten, which is the limit. Prints the warnings of
// the process. The argument is the URL of a node.
import { setImmediate } from "node:timers/promises";
import { Redlock } from "redlock-native";

process.on("warning", ({ name }) => console.log(name));
const listen = () => process.on("exit", () => undefined);
for (let at = 0; at < 5; at += 1) listen();
const client = new Redlock(process.argv[2]);
const locks = ["a", "b", "c"].map((name) => client.lock(name));
for (let round = 0; round < 3; round += 1) {
  const leases = await Promise.all(locks.map((lock) => lock.acquire()));
  await Promise.all(leases.map((lease) => lease.release()));
}
for (let at = 0; at < 4; at += 1) listen();
await setImmediate();
console.log("done");
