// Uses the package in every way and leaves a lease held and watched. The sandbox is as large as an application's.
const large = Array.from({ length: 4_000_000 }, (_, at) => at + 0.5);

test("a sandbox that can be collected", async () => {
  // Within the test, which has a separate async context. The data of that context must not stay either.
  const { Redlock } = require("redlock-native");
  const redlock = new Redlock(process.env.REDIS_URL ?? "memory://");
  const name = `${__filename} ${large.length}`;
  const lock = redlock.lock(name, { ttl: 1000, wait: 5000 });
  await lock.using(async (lease) => expect(lease.held).toBe(true));
  const stop = new AbortController();
  const lease = await lock.acquire({ signal: stop.signal });
  lease.onLost(() => undefined);
  const refused = expect(lock.acquire({ signal: stop.signal })).rejects.toThrow();
  stop.abort();
  await refused;
  await redlock.forceRelease(name);
  await lock.acquire({});
});
