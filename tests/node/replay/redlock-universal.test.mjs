// redlock-universal 0.8.5, its cases for batches, partitions and states that the other libraries do not have.
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { LockLost, LockTimeout, QuorumUnavailable, Redlock } from "redlock-native";
import { eventually, refusal, Server, uniqueName } from "../helper.mjs";
import { after } from "../testing.mjs";
import { ioredis, nodeRedis, over, serversForSuite } from "./clients.mjs";
import { failed, replaying } from "./replay.mjs";

const { replay, told } = replaying("redlock-universal 0.8.5");
const five = serversForSuite(5);
const CLIENTS = { IoredisAdapter: ioredis, NodeRedisAdapter: nodeRedis };
const EACH_KIND = Object.keys(CLIENTS);

const single = (kind) => over(CLIENTS[kind](five.all[0]));
const names = (count) => Array.from({ length: count }, () => uniqueName());
const get = (key) => five.all[0].cli("GET", key);
/** A client over all five. The frozen ones are on the other side of a partition. */
const quorum = (name, options) =>
  over(five.all.map(ioredis)).lock(name ?? uniqueName(), {
    ttl: 5_000,
    wait: 1_500,
    nodeTimeout: 200,
    ...options,
  });
const freeze = (...at) => {
  for (const each of at) five.all[each].process.kill("SIGSTOP");
};
const thaw = () => {
  for (const server of five.all) server.process.kill("SIGCONT");
};
after(thaw);

replay("a batch: all of its names or none", "same", EACH_KIND, async (kind) => {
  const batch = names(3);
  const lease = await single(kind).lock(batch).acquire();
  for (const name of batch) assert.equal(await get(name), lease.token);
  await lease.release();
  for (const name of batch) assert.equal(await get(name), "");
});

replay("a batch with one held name fails, and acquires none", "same", EACH_KIND, async (kind) => {
  const batch = names(3);
  const client = single(kind);
  const blocking = await client.lock(batch[1]).acquire();
  assert.ok((await failed(client.lock(batch, { wait: 100 }).acquire())) instanceof LockTimeout);
  assert.deepEqual(
    [await get(batch[0]), await get(batch[1]), await get(batch[2])],
    ["", blocking.token, ""],
  );
  await blocking.release();
});

replay("batches in any order do not deadlock", "same", EACH_KIND, async (kind) => {
  const [one, two, three] = names(3);
  const [client, other] = [single(kind), single(kind)];
  const orders = [
    [one, two, three],
    [three, two, one],
    [two, three, one],
  ];
  const both = orders.flatMap((order) =>
    [client, other].map((each) => each.using(order, { wait: 20_000 }, () => 1)),
  );
  assert.equal((await Promise.all(both)).length, 6);
});

replay("an empty batch is refused", "same", EACH_KIND, (kind) => {
  assert.throws(() => single(kind).lock([]), refusal(["name"]));
});

replay("a batch can have its own TTL", "same", EACH_KIND, async (kind) => {
  const lease = await single(kind).lock(names(2), { ttl: 5_000 }).acquire();
  assert.equal(lease.ttl, 5_000);
  await lease.release();
});

replay("a batch of one", "same", EACH_KIND, async (kind) => {
  const [name] = names(1);
  const lease = await single(kind).lock([name]).acquire();
  assert.deepEqual(lease.keys, [name]);
  await lease.release();
});

replay("a batch of ten", "same", EACH_KIND, async (kind) => {
  const batch = names(10);
  const lease = await single(kind).lock(batch).acquire();
  assert.equal(lease.keys.length, 10);
  await lease.release();
});

replay("releasing a batch twice returns false", "differs", EACH_KIND, async (kind) => {
  const lease = await single(kind).lock(names(2)).acquire();
  await lease.release();
  assert.equal(await lease.release(), undefined);
});

replay(
  "a batch with one missing name: the others are released",
  "same",
  EACH_KIND,
  async (kind) => {
    const batch = names(3);
    const lease = await single(kind).lock(batch).acquire();
    await five.all[0].cli("DEL", batch[1]);
    const error = await failed(lease.release());
    assert.ok(error instanceof LockLost);
    await eventually(async () => {
      for (const name of batch) assert.equal(await get(name), "");
    });
  },
);

replay("batches are counted", "differs", ["acquired", "failed"], async (variant) => {
  const client = single("IoredisAdapter");
  const batch = names(3);
  const lease = await client.lock(batch).acquire();
  if (variant === "failed")
    await client
      .lock(batch, { wait: 0 })
      .acquire()
      .catch(() => undefined);
  // Counts leases, not their names.
  const { granted, timedOut, held } = client.stats();
  assert.deepEqual([granted, timedOut, held], [1, variant === "failed" ? 1 : 0, 1]);
  await lease.release();
});

replay("errors name the key without its prefix", "differs", EACH_KIND, async (kind) => {
  const client = over(CLIENTS[kind](five.all[0]), { keyPrefix: "test-prefix:" });
  const name = uniqueName();
  const lease = await client.lock(name).acquire();
  const error = await failed(client.lock(name, { wait: 50 }).acquire());
  assert.equal(error.resource, `test-prefix:${name}`);
  await lease.release();
});

replay("locks through either client package exclude each other", "same", ["twice"], async () => {
  const name = uniqueName();
  const [one, other] = EACH_KIND.map((kind) => single(kind).lock(name));
  const lease = await one.acquire();
  assert.equal((await other.inspect()).held, true);
  assert.equal(await other.tryAcquire(), null);
  await lease.release();
  await (await other.tryAcquire()).release();
});

replay("one of ten concurrent callers acquires the lock", "same", EACH_KIND, async (kind) => {
  const lock = single(kind).lock(uniqueName());
  const tried = await Promise.all(Array.from({ length: 10 }, () => lock.tryAcquire()));
  const [lease, ...others] = tried.filter((each) => each !== null);
  assert.ok(lease.held);
  assert.deepEqual(others, []);
  await lease.release();
});

replay(
  "a partition without a majority cannot acquire, and never two hold",
  "same",
  ["held before", "healed after"],
  async (variant) => {
    const lock = quorum();
    if (variant === "held before") {
      const lease = await lock.acquire();
      freeze(0, 1);
      assert.ok((await failed(quorum(lock.names[0]).acquire())) instanceof LockTimeout);
      thaw();
      await lease.release();
      return;
    }
    freeze(0, 1, 2);
    assert.ok((await failed(lock.acquire())) instanceof QuorumUnavailable);
    thaw();
    await (await lock.acquire({ wait: 10_000 })).release();
  },
);

replay(
  "a minority is down: held, extended, released",
  "same",
  ["held before", "gone before", "not neighbours"],
  async (variant) => {
    const lock = quorum();
    const gone = variant === "not neighbours" ? [1, 3] : [0, 1];
    let lease;
    if (variant === "held before") lease = await lock.acquire();
    freeze(...gone);
    lease ??= await lock.acquire();
    assert.equal((await lock.inspect()).held, true);
    await lease.extend(6_000);
    assert.ok(lease.held);
    await lease.release();
    thaw();
  },
);

replay("a key released during a partition stays on the lost server", "better", [""], async () => {
  const lock = quorum();
  const lease = await lock.acquire();
  freeze(0, 1);
  await lease.release();
  thaw();
  // redlock-universal leaves it there for its TTL.
  await eventually(
    async () => assert.deepEqual(await five.get(lock.key), Array(5).fill("")),
    4_000,
  );
});

replay(
  "one server after the other goes down: reported once the majority is down",
  "better",
  [""],
  async () => {
    const lock = quorum(uniqueName(), { ttl: 1_500 });
    const lease = await lock.acquire();
    freeze(0);
    freeze(1);
    await sleep(800);
    assert.equal(lease.held, true);
    freeze(2);
    await eventually(() => assert.equal(lease.held, false));
    // redlock-universal reports it as not locked, as if it could be acquired.
    const error = await failed(lock.inspect());
    assert.ok(error instanceof QuorumUnavailable);
    thaw();
  },
);

replay("expired during a partition: the next caller acquires it", "same", [""], async () => {
  const lock = quorum(uniqueName(), { ttl: 1_000, renew: false, wait: 10_000 });
  const first = await lock.acquire();
  freeze(0, 1);
  await sleep(1_200);
  thaw();
  const next = await lock.acquire();
  assert.notEqual(next.token, first.token);
  assert.equal(first.held, false);
  await next.release();
});

replay("drift is subtracted", "same", [""], async () => {
  const lease = await quorum(uniqueName(), { ttl: 5_000 }).acquire();
  assert.ok(lease.remaining <= 5_000 * 0.99, `${lease.remaining}`);
  await lease.release();
});

replay("partitions that come and go have no effect", "same", [""], async () => {
  const lock = quorum();
  const lease = await lock.acquire();
  for (const at of [0, 1, 2]) {
    freeze(at);
    await sleep(60);
    thaw();
    await sleep(60);
  }
  assert.ok(lease.held && (await lock.inspect()).held);
  await lease.release();
});

replay("a failed attempt leaves no votes", "same", [""], async () => {
  const lock = quorum(uniqueName(), { wait: 300 });
  freeze(0, 1, 2);
  await failed(lock.acquire());
  thaw();
  await eventually(async () => assert.deepEqual(await five.get(lock.key), Array(5).fill("")));
});

replay("two callers during a partition: one acquires it", "same", [""], async () => {
  freeze(4);
  const name = uniqueName();
  const both = [quorum(name, { ttl: 20_000 }), quorum(name, { ttl: 20_000 })];
  const ended = await Promise.allSettled(both.map((lock) => lock.acquire()));
  const [won, ...others] = ended.filter(({ status }) => status === "fulfilled");
  assert.equal(others.length, 0);
  await won.value.release();
  thaw();
});

replay(
  "isLocked reports what a quorum reports",
  "same",
  ["by a minority", "by a majority"],
  async (variant) => {
    const lock = quorum();
    const count = variant === "by a minority" ? 2 : 3;
    for (const server of five.all.slice(0, count))
      await server.cli("SET", lock.key, "x", "PX", 5_000);
    assert.equal((await lock.inspect()).held, variant === "by a majority");
  },
);

replay("isLocked without a quorum: false", "better", [""], async () => {
  const gone = await Server.start();
  const lock = over(ioredis(gone)).lock(uniqueName());
  await lock.tryAcquire();
  await gone.stop();
  assert.ok((await failed(lock.inspect())) instanceof QuorumUnavailable);
});

const WRONG = {
  "no server": () => over([]),
  "an empty key": () => quorum(""),
  "a ttl below 0": () => quorum("key", { ttl: -1 }),
  "a quorum of one's own": () => new Redlock("memory://", { quorum: 5 }),
  "a drift of one's own": () => new Redlock("memory://", { clockDriftFactor: 1.5 }),
  "no settings": () => Redlock.fromClient(null),
};
replay("refuses invalid settings", "same", Object.keys(WRONG), (variant) => {
  assert.throws(WRONG[variant], refusal([]));
});

told();
