// node-redlock 4.2.0, test.js: 56 cases, each over one server with either client package, and over three.
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { Redlock } from "redlock-native";
import { eventually, refusal, uniqueName } from "../helper.mjs";
import { ioredis, nodeRedis, over, serversForSuite } from "./clients.mjs";
import { byCallback, failed, replaying } from "./replay.mjs";

const LONG_TTL = 10_000;
const { replay, told } = replaying("node-redlock 4.2.0", {
  what: "the first eleven with callbacks, and with attempts and delays per call",
  verdict: "differs",
  has: (variant) => variant.endsWith("callbacks"),
});
const servers = serversForSuite(3);

const ONE_OR_SEVERAL = ["one name", "two names"];
const EACH_WAY = [...ONE_OR_SEVERAL, "one name, callbacks", "two names, callbacks"];

/** The places, one after the other, with the setup of a case for each. */
async function everywhere(variant, body) {
  const names = variant.startsWith("two") ? 2 : 1;
  const call = variant.endsWith("callbacks") ? byCallback : (use) => use();
  const [one] = servers.all;
  for (const theirs of [ioredis(one), nodeRedis(one), servers.all.map(ioredis)]) {
    const client = over(theirs);
    const resources = Array.from({ length: names }, () => uniqueName());
    const lock = (options) => client.lock(resources, { wait: 2_000, ...options });
    const key = resources[0];
    await body({ client, lock, call, key, resources, every: Array.isArray(theirs) });
    client.close();
  }
}

/** The key's values on the servers of the place. */
const values = async (key, every) => (await servers.get(key)).slice(0, every ? 3 : 1);

replay("locks a resource", "same", EACH_WAY, (variant) =>
  everywhere(variant, async ({ lock, call, resources, every }) => {
    const lease = await call(() => lock({ ttl: 1_000 }).acquire());
    assert.ok(lease.held && lease.remaining > 0 && lease.remaining <= 1_000);
    for (const key of resources) {
      const found = await values(key, every);
      // A quorum replied. The last server may be slightly later.
      assert.ok(found.filter((value) => value === lease.token).length > found.length / 2);
    }
    await call(() => lease.release());
  }),
);

replay("waits until a lock expires before it acquires the next", "same", EACH_WAY, (variant) =>
  everywhere(variant, async ({ lock, call }) => {
    const first = await call(() => lock({ ttl: 200, renew: false }).acquire());
    const second = await call(() => lock({ ttl: 800 }).acquire());
    assert.deepEqual([first.held, second.held], [false, true]);
    await second.release();
  }),
);

replay("an unlock ends the hold immediately", "same", EACH_WAY, (variant) =>
  everywhere(variant, async ({ lock, call, key, every }) => {
    const lease = await lock().acquire();
    const released = call(() => lease.release());
    assert.equal(lease.held, false);
    await released;
    await eventually(async () => assert.ok((await values(key, every)).every((it) => it === "")));
  }),
);

replay("unlocking twice fails", "differs", EACH_WAY, (variant) =>
  everywhere(variant, async ({ lock, call, key, every }) => {
    const lease = await lock().acquire();
    await lease.release();
    const next = await lock().acquire();
    await call(() => lease.release());
    // It does not affect the next holder.
    assert.ok((await values(key, every)).includes(next.token));
    await next.release();
  }),
);

replay("fails if it cannot be released completely", "same", EACH_WAY, (variant) =>
  everywhere(variant, async ({ lock, call, key }) => {
    const lease = await lock().acquire();
    for (const server of servers.all) {
      await server.cli("DEL", key);
      await server.cli("SADD", key, "somebody's data");
    }
    const error = await failed(call(() => lease.release()));
    assert.ok(["lost", "unavailable"].includes(error.kind), String(error));
    assert.equal(await servers.all[0].cli("TYPE", key), "set");
  }),
);

replay("fails to extend a released lock", "same", EACH_WAY, (variant) =>
  everywhere(variant, async ({ lock, call }) => {
    const lease = await lock().acquire();
    await lease.release();
    assert.equal((await failed(call(() => lease.extend(200)))).kind, "released");
  }),
);

replay("the lock is available immediately after an unlock", "same", EACH_WAY, (variant) =>
  everywhere(variant, async ({ lock, call }) => {
    const first = await lock({ ttl: LONG_TTL }).acquire();
    await first.release();
    const second = await call(() => lock({ ttl: LONG_TTL, wait: 0 }).acquire());
    assert.ok(second.held);
    await second.release();
  }),
);

replay("extends an unexpired lock, and returns the same lock", "same", EACH_WAY, (variant) =>
  everywhere(variant, async ({ lock, call, key, every }) => {
    const lease = await lock({ ttl: 1_000 }).acquire();
    const before = lease.remaining;
    await call(() => lease.extend(LONG_TTL));
    assert.ok(lease.remaining > before && lease.held);
    const left = (await servers.ttl(key)).slice(0, every ? 3 : 1);
    assert.ok(left.filter((ms) => ms > 1_000).length > left.length / 2, String(left));
    await lease.release();
  }),
);

replay(
  "fails after its last attempt, and reports the number of attempts",
  "differs",
  EACH_WAY,
  (variant) =>
    everywhere(variant, async ({ lock, call }) => {
      const lease = await lock({ ttl: LONG_TTL }).acquire();
      const error = await failed(call(() => lock({ wait: 100 }).acquire()));
      assert.equal(error.kind, "timeout");
      assert.ok(error.waited >= 90 && error.remaining > 0);
      // The vote of each server.
      const { nodes } = await lock().inspect();
      assert.ok(
        nodes.some(({ state, token }) => state === "held" && lease.token.startsWith(token)),
      );
      await lease.release();
    }),
);

replay("fails to extend an expired lock", "same", EACH_WAY, (variant) =>
  everywhere(variant, async ({ lock, call }) => {
    const lease = await lock({ ttl: 200, renew: false }).acquire();
    await sleep(250);
    assert.equal((await failed(call(() => lease.extend(800)))).kind, "lost");
  }),
);

const CALLBACKS = EACH_WAY.slice(2);
replay("gives another at once after an expiry", "same", CALLBACKS, (variant) =>
  everywhere(variant, async ({ lock, call }) => {
    await lock({ ttl: 150, renew: false }).acquire();
    await sleep(250);
    const next = await call(() => lock({ wait: 1_000 }).acquire());
    assert.ok(next.held);
    await next.release();
  }),
);

replay("takes attempts and pauses for one call", "differs", ["callbacks"], (variant) =>
  everywhere(variant, async ({ lock, call }) => {
    const described = lock();
    const lease = await call(() => described.acquire({ wait: 5_000 }));
    assert.equal((await failed(described.acquire({ wait: 0 }))).kind, "timeout");
    const theirs = { retryCount: 10 };
    assert.equal((await failed(described.acquire(theirs))).kind, "invalid");
    await lease.release();
  }),
);

replay("its private state is unchanged", "no equivalent", [""], () => {
  const described = new Redlock("memory://").lock("job");
  assert.deepEqual(
    Object.keys(described).filter((name) => /^_?lock/.test(name)),
    [],
  );
});

replay("a disposer unlocks after its block", "same", ONE_OR_SEVERAL, (variant) =>
  everywhere(variant, async ({ lock, key, every }) => {
    const lease = await lock({ ttl: LONG_TTL }).using((lease) => {
      assert.ok(lease.held);
      return lease;
    });
    assert.equal(lease.held, false);
    await eventually(async () => assert.ok((await values(key, every)).every((it) => it === "")));
  }),
);

replay("the lock is available right after a disposer's block", "same", ONE_OR_SEVERAL, (variant) =>
  everywhere(variant, async ({ lock }) => {
    await lock({ ttl: LONG_TTL }).using(() => undefined);
    assert.equal(await lock({ ttl: LONG_TTL, wait: 0 }).using(({ held }) => held), true);
  }),
);

replay(
  "a disposer's handler gets the error of a failed unlock",
  "better",
  ONE_OR_SEVERAL,
  (variant) =>
    everywhere(variant, async ({ lock, resources }) => {
      const told = [];
      const ended = lock({ ttl: LONG_TTL }).using(async (lease) => {
        lease.onLost((error) => told.push(error.kind));
        for (const server of servers.all) await server.cli("DEL", ...resources);
        await eventually(() => assert.equal(lease.held, false));
      });
      assert.equal((await failed(ended)).kind, "lost");
      assert.deepEqual(told, ["lost"]);
    }),
);

replay("a disposer unlocks an extended lock", "same", ONE_OR_SEVERAL, (variant) =>
  everywhere(variant, async ({ lock, key, every }) => {
    const described = lock({ ttl: 500 });
    const lease = await described.using(async (lease) => {
      const before = lease.remaining;
      await lease.extend(LONG_TTL);
      assert.ok(lease.remaining > before);
      return lease;
    });
    assert.equal(lease.held, false);
    await eventually(async () => assert.ok((await values(key, every)).every((it) => it === "")));
  }),
);

replay("an empty list of clients is refused", "same", [""], () => {
  assert.throws(() => over([]), refusal(["the list of clients is empty"]));
  assert.throws(() => new Redlock([]), refusal([]));
});

replay("an event reports each server's error", "better", [""], async () => {
  const key = uniqueName();
  for (const server of servers.all) await server.cli("SADD", key, "somebody's data");
  const error = await failed(over(servers.all.map(ioredis)).lock(key).acquire({ wait: 1_000 }));
  assert.equal(error.kind, "unsupported");
  assert.match(error.message, /another type/);
});

replay("custom scripts", "no equivalent", [""], () => {
  const [one] = servers.all;
  const theirs = { lockScript: (script) => script };
  assert.throws(() => over(ioredis(one), theirs), refusal(["lockScript"]));
});

replay("quit closes all clients", "differs", [""], async () => {
  const theirs = servers.all.map(nodeRedis);
  await Promise.all(theirs.map((client) => client.connect()));
  const client = over(theirs);
  const lease = await client.lock(uniqueName()).acquire();
  assert.equal(await client.shutdown(100), 1);
  assert.equal(lease.held, false);
  assert.equal((await failed(client.lock(uniqueName()).acquire())).kind, "closed");
  for (const each of theirs) {
    assert.equal(await each.ping(), "PONG");
    each.destroy();
  }
});

told();
