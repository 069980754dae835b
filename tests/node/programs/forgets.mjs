// Forgets leases whose listeners refer to them, and one from TestRedlock.hold(). Run with --expose-gc. Prints the
// collected leases, and whether a lease that is still referenced reports its loss.
import { setImmediate as nextTurn } from "node:timers/promises";
import { onWarning, Redlock } from "redlock-native";
import { TestRedlock } from "redlock-native/testing";

const ttl = 60_000;
const collected = [];
onWarning(({ message }) => {
  if (message.includes("garbage-collected")) collected.push(message.split(":", 2).join(":"));
});
const redlock = new Redlock("memory://forgets");
const test = new TestRedlock();

async function forget(name, listen) {
  const lease = await redlock.lock(name, { ttl }).acquire();
  listen(lease);
}

const lost = [];
const kept = await redlock.lock("kept", { ttl }).acquire();
kept.onLost(() => lost.push(kept.key));
kept.signal.addEventListener("abort", () => lost.push(kept.key));
await test.hold("theirs", { ttl });
const forgotten = {
  plain: () => undefined,
  callback: (lease) => lease.onLost(() => lease.key),
  signal: (lease) => lease.signal.addEventListener("abort", () => lease.key),
};
for (const [name, listen] of Object.entries(forgotten)) await forget(name, listen);
// Afterwards no lease is too new to be collected.
redlock.leases();
const limit = performance.now() + 10_000;
const collect = async () => {
  global.gc();
  await nextTurn();
};
while (collected.length < 3 && performance.now() < limit) await collect();
// The callbacks for objects of one collection may run in several turns.
for (let turn = 0; turn < 10; turn += 1) await collect();
await redlock.forceRelease("kept");
while (lost.length < 2 && performance.now() < limit) await nextTurn();
console.log(JSON.stringify({ collected: collected.sort(), lost }));
test.close();
