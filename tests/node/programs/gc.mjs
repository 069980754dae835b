// Drops a lease without a release. Run with --expose-gc. The argument is the node.
import { setTimeout as sleep } from "node:timers/promises";
import { Redlock } from "redlock-native";

const redlock = new Redlock(process.argv[2]);
const lock = redlock.lock("collected", { ttl: 3000 });

async function forgetful() {
  await lock.acquire();
}

await forgetful();
const released = await redlock.lock("released").acquire();
await released.release();
const kept = await redlock.lock("kept", { ttl: 1000 }).acquire();
for (let round = 0; round < 10; round++) {
  await sleep(50);
  global.gc();
}
// It is neither released immediately nor renewed forever. A lease that is still referenced is renewed.
const early = await redlock.lock("collected").tryAcquire();
const later = await redlock.lock("collected", { wait: 5000 }).acquire();
console.log(JSON.stringify({ early, later: later.held, kept: kept.held }));
await later.release();
