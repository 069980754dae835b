import { type Lease, LockTimeout, Redlock } from "redlock-native";

test("a lock and its refusal", async () => {
  const lock = new Redlock("memory://").lock("ts-jest", { ttl: 1000, wait: 0 });
  const lease: Lease = await lock.acquire();
  expect(lease.held).toBe(true);
  await expect(lock.acquire()).rejects.toThrow(LockTimeout);
  await lease.release();
});
