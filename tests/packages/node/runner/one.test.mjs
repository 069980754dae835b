// The same for node:test, which waits for everything that keeps its process alive.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Redlock } from "redlock-native";

test("a lock, its refusal, a loss and what is left", async () => {
  const redlock = new Redlock(process.env.REDIS_URL);
  const lock = redlock.lock(import.meta.url, { ttl: 1_000, wait: 0 });
  assert.equal(await lock.using(({ held }) => held), true);
  const lease = await lock.acquire();
  await assert.rejects(lock.acquire(), { kind: "timeout" });
  lease.onLost(() => undefined);
  assert.equal(lease.signal.aborted, false);
  // No JavaScript sockets, timers or similar resources.
  const open = process.getActiveResourcesInfo().filter((kind) => !/^(Pipe|TTY|FS|File)/.test(kind));
  assert.deepEqual(open, []);
});
