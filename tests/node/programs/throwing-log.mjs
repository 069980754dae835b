// Listeners of the log that throw and reject, beside one that works.
import { onLog, Redlock } from "redlock-native";

const others = [];
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
onLog(({ event }) => others.push(event));
const client = new Redlock("memory://");
const lease = await client.lock("job").acquire();
await new Promise((resolve) => setTimeout(resolve, 50));
console.log(lease.held ? "held" : "lost");
await lease.release();
const limit = performance.now() + 10_000;
while (others.length < 2 && performance.now() < limit) {
  await new Promise((resolve) => setTimeout(resolve, 10));
}
console.log(`others: ${others.join(", ")}`);
