// The same process with another copy of the package, because Jest gives each file separate modules.
const { Redlock } = require("redlock-native");

test("another file's copy works beside the first", async () => {
  const lock = new Redlock("memory://").lock("jest", { ttl: 1000, wait: 1000 });
  await lock.using(async (lease) => expect(lease.held).toBe(true));
});
