// Acquires the lock, writes, and writes again on a command: holder.mjs REDIS STORE
import { once } from "node:events";
import { LockLost, Redlock } from "redlock-native";

const [redis, store] = process.argv.slice(2);
const lock = new Redlock(redis).lock("row:42", { ttl: 1500, fencing: true });

async function write(lease) {
  const headers = { "Fencing-Token": String(lease.fencingToken) };
  const { status } = await fetch(`${store}/row:42`, { method: "PUT", body: "node", headers });
  if (status === 204) console.log("wrote", lease.fencingToken);
  else console.log(status === 412 ? "refused" : "failed", status);
}

try {
  await lock.using(async (lease) => {
    await write(lease);
    lease.ensureHeld();
    console.log("holds", lease.key);
    // Stands for any pause between a check and its write. Here the process waits for one line from the demo.
    await once(process.stdin, "data");
    await write(lease);
  });
  console.log("released", lock.key);
} catch (error) {
  if (!(error instanceof LockLost)) throw error;
  console.log("lost", error.reason);
}
process.exit();
