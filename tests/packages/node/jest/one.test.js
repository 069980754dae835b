const { LockTimeout, Redlock } = require("redlock-native");

test("a lock, its refusal and its release", async () => {
  const lock = new Redlock("memory://").lock("jest", { ttl: 1000, wait: 0 });
  const lease = await lock.acquire({ signal: new AbortController().signal });
  expect(lease.held).toBe(true);
  await expect(lock.acquire()).rejects.toThrow(LockTimeout);
  await expect(lock.acquire()).rejects.toMatchObject({ kind: "timeout", resource: "lock:jest" });
  await lease.release();
  expect(() => new Redlock("memory://").lock("jest", { ttl: 1 })).toThrow("milliseconds");
});
