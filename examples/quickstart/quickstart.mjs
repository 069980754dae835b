import { Redlock } from "redlock-native";

const client = new Redlock("memory://"); // your server: redis://127.0.0.1:6379

await client.using("orders:42", { ttl: 10_000, wait: 5_000 }, async (lease) => {
  // Renewed in the background until the function ends.
  console.log("holding", lease.key);
  lease.ensureHeld(); // throws LockLost if the lease has ended
});

console.log("released");
