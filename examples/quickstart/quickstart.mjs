import { Redlock } from "redlock-native";

// A lock in this process, for first steps. A real one: redis://127.0.0.1:6379
const client = new Redlock(["memory://"]);

// Describes the lock; nothing is sent yet.
const lock = client.lock("orders:42", { ttl: 10_000, wait: 5_000 });

// Holds it for the block: renewed in the background, released at the end.
await lock.using(async (lease) => {
  console.log("holding", lease.key);

  // Throws LockLost when the lease has ended: ask before you write.
  lease.ensureHeld();
});

console.log("released");
