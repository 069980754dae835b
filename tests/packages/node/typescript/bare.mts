// The default of TypeScript 6 and later: @types/node is not loaded.
import { LockTimeout, type Redlock } from "redlock-native";
import { TestRedlock } from "redlock-native/testing";

export async function held(client: Redlock = new TestRedlock()): Promise<boolean | undefined> {
  const lease = await client.lock("job").acquire();
  const error: unknown = await client.lock("job").tryAcquire();
  await lease.release();
  return error instanceof LockTimeout ? lease.signal === undefined : lease.held;
}
