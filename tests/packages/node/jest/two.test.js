// The same process, another copy of the package: Jest gives each file modules of its own.
const { Redlock } = require("redlock-native");

test("another file's copy works beside the first", async () => {
  const lock = new Redlock("memory://").lock("jest", { ttl: 1000, wait: 1000 });
  await lock.using(async (lease) => expect(lease.held).toBe(true));
});
