// An open client, an unreleased lease and a waiter do not keep Vitest from ending.
import { Redlock } from "redlock-native";
import { expect, test } from "vitest";

test("a lock, its refusal, a loss and what is left", async () => {
  const redlock = new Redlock(process.env.REDIS_URL);
  // The next run is another process, and a lease of this one may still be held then.
  const lock = redlock.lock(`${import.meta.url} ${process.pid}`, { ttl: 1_000, wait: 0 });
  expect(await lock.using(({ held }) => held)).toBe(true);
  const lease = await lock.acquire();
  await expect(lock.acquire()).rejects.toMatchObject({ kind: "timeout" });
  lease.onLost(() => undefined);
  expect(lease.signal.aborted).toBe(false);
});
