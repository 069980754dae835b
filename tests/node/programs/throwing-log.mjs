// Listeners of the log that throw and reject, beside one that works.
import { EventEmitter, once } from "node:events";
import { onLog, Redlock } from "redlock-native";

const others = [];
const arrivals = new EventEmitter();
onLog(() => {
  throw new Error("theirs");
});
onLog(async () => {
  await undefined;
  throw new Error("later");
});
onLog(() => {
  throw { plain: 1 };
});
onLog(() => {
  throw new Proxy(
    {},
    {
      getPrototypeOf() {
        throw new Error("unreadable");
      },
    },
  );
});
onLog(({ event }) => {
  others.push(event);
  arrivals.emit(event);
});
const tooLate = setTimeout(() => process.exit(1), 10_000);
const [granted, released] = [once(arrivals, "granted"), once(arrivals, "released")];
const client = new Redlock("memory://");
const lease = await client.lock("job").acquire();
await granted;
console.log(lease.held ? "held" : "lost");
await lease.release();
await released;
console.log(`others: ${others.join(", ")}`);
clearTimeout(tooLate);
