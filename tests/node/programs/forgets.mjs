// Forgets a lease, one whose callback waits for its loss, one from TestRedlock.hold(), and the terms of a candidate that
// it keeps and of one that it forgets too. Run with --expose-gc. Prints the collected leases, the reported losses, and
// whether the kept candidate leads.
import { once } from "node:events";
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

async function forget(name) {
  await redlock.lock(name, { ttl }).acquire();
}

async function forgetTerm(candidate) {
  await candidate.campaign();
}

const lost = [];
// Nothing but the lease refers to the promise of the callback.
void redlock
  .lock("kept", { ttl })
  .using(async (lease) => {
    await once(lease.signal, "abort");
    lost.push(lease.key);
  })
  .catch(() => undefined);
await test.hold("theirs", { ttl });
await forget("plain");
const leader = redlock.leader("leader", { ttl });
await forgetTerm(leader);
await forgetTerm(redlock.leader("forgotten-leader", { ttl }));
// Afterwards no lease is too new to be collected.
redlock.leases();
const limit = performance.now() + 10_000;
const collect = async () => {
  global.gc();
  await nextTurn();
};
while (collected.length < 2 && performance.now() < limit) await collect();
// The callbacks for objects of one collection may run in several turns.
for (let turn = 0; turn < 10; turn += 1) await collect();
await redlock.forceRelease("kept");
while (lost.length < 1 && performance.now() < limit) await nextTurn();
console.log(JSON.stringify({ collected: collected.sort(), lost, leads: leader.isLeading }));
test.close();
