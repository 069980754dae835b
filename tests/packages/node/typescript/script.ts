// For the module settings that produce CommonJS.
import { type Lease, LockTimeout, Redlock } from "redlock-native";

async function main(): Promise<void> {
  const lock = new Redlock("memory://").lock("job", { ttl: 1000, fencing: true });
  const lease: Lease<true> = await lock.acquire();
  const refused = await lock.acquire({ wait: 0 }).catch((error: unknown) => error);
  console.log(lease.key, lease.held && lease.fencingToken > 0 && refused instanceof LockTimeout);
  await lease.release();
}

void main();

// The types are seen, and are not any.
// @ts-expect-error a ttl is a number
export const wrong = () => new Redlock("memory://").lock("job", { ttl: "1000" });
