// redis-semaphore 5.8.0, the cases for Mutex and RedlockMutex, over one server and over three.
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { onWarning, Redlock } from "redlock-native";
import { eventually, refusal, uniqueName } from "../helper.mjs";
import { ioredis, over, serversForSuite } from "./clients.mjs";
import { failed, replaying } from "./replay.mjs";

const { replay, told } = replaying("redis-semaphore 5.8.0");
const servers = serversForSuite(3);
const CLASSES = ["Mutex", "RedlockMutex"];
const PREFIX = { keyPrefix: "mutex:" };
const SHORT_TTL = { ttl: 300, wait: 100 };

/** The interface of redis-semaphore's mutex that a test uses. */
function mutex(kind, options = SHORT_TTL, name = uniqueName()) {
  const count = kind === "Mutex" ? 1 : 3;
  const client = over(servers.all.slice(0, count).map(ioredis), PREFIX);
  const lock = client.lock(name, options);
  const values = async () => (await servers.get(lock.key)).slice(0, count);
  const write = (...words) => {
    const told = servers.all
      .slice(0, count)
      .map((server) => server.cli(words[0], lock.key, ...words.slice(1)));
    return Promise.all(told);
  };
  /** Waits until all servers have it, because a late reply comes slightly after the quorum's. */
  const has = (value) =>
    eventually(async () => assert.deepEqual(await values(), Array(count).fill(value)), 2_000);
  return { client, lock, name, has, write, values };
}

replay("refuses invalid arguments", "same", CLASSES, (kind) => {
  for (const client of [null, undefined, {}, [{}], []]) {
    assert.throws(() => Redlock.fromClient(client), refusal(["client"]));
  }
  const { client } = mutex(kind);
  for (const name of ["", 1, null]) assert.throws(() => client.lock(name), refusal([]));
  for (const options of [{ identifier: "" }, { acquiredExternally: true }, { lockTimeout: 1 }]) {
    assert.throws(() => client.lock("key", options), refusal([Object.keys(options)[0]]));
  }
});

replay("has defaults for every option", "same", ["Mutex"], () => {
  const [one] = servers.all;
  assert.equal(over(ioredis(one), PREFIX).lock("key", {}).key, "mutex:key");
  assert.equal(over(ioredis(one), PREFIX).lock("key").key, "mutex:key");
});

replay("its identifier is a random UUID", "same", ["Mutex"], async (kind) => {
  const lease = await mutex(kind).lock.acquire();
  assert.match(lease.token, /^[0-9a-f]{12}4[0-9a-f]{3}[89ab][0-9a-f]{15}$/);
  await lease.release();
});

replay("an identifier from the caller, or with a suffix", "differs", ["whole", "ending"], () => {
  const { client } = mutex("Mutex");
  const theirs = [{ identifier: "abc" }, { identifierSuffix: "abc" }];
  for (const each of theirs) {
    assert.throws(() => client.lock("key", each), refusal([Object.keys(each)[0]]));
  }
});

replay("acquires and releases", "same", CLASSES, async (kind) => {
  const { lock, has } = mutex(kind, {});
  const lease = await lock.acquire();
  assert.equal(lease.held, true);
  await has(lease.token);
  await lease.release();
  assert.equal(lease.held, false);
  await has("");
});

replay("rejects after its timeout", "same", CLASSES, async (kind) => {
  const { lock, has } = mutex(kind);
  const lease = await lock.acquire();
  const error = await failed(lock.acquire());
  assert.equal(error.kind, "timeout");
  assert.ok(error.message.includes(lock.key));
  await lease.release();
  await has("");
});

replay("a signal ends its waiting", "same", CLASSES, async (kind) => {
  const { lock, has } = mutex(kind, { ttl: 300, wait: 5_000 });
  const lease = await lock.acquire();
  const error = await failed(lock.acquire({ signal: AbortSignal.timeout(20) }));
  assert.equal(error.name, "TimeoutError");
  await lease.release();
  await has("");
});

replay("tryAcquire returns false after its timeout", "differs", ["Mutex"], async (kind) => {
  const { lock } = mutex(kind);
  const lease = await lock.acquire();
  assert.equal(await lock.tryAcquire(), null);
  await lease.release();
});

replay("tryAcquire returns true if it acquires the lock", "same", ["Mutex"], async (kind) => {
  const { lock, has } = mutex(kind);
  const lease = await lock.tryAcquire();
  assert.ok(lease.held);
  await lease.release();
  await has("");
});

replay("is refreshed until its release", "same", CLASSES, async (kind) => {
  const { lock, has } = mutex(kind);
  const lease = await lock.acquire();
  await sleep(500);
  await has(lease.token);
  await lease.release();
  await has("");
});

replay("stopRefresh ends the refreshing", "same", CLASSES, async (kind) => {
  const { lock, has } = mutex(kind);
  const lease = await lock.acquire();
  assert.equal(lease.detach(), true);
  await has("");
});

replay("one refresh at a time, however slow", "same", ["Mutex"], async (kind) => {
  const { client, lock } = mutex(kind, { ttl: 900 });
  const lease = await lock.acquire();
  const [one] = servers.all;
  // Two refreshes were due meanwhile.
  await one.cli("CLIENT", "PAUSE", 500, "ALL");
  await sleep(800);
  const { renewed, unrenewed } = client.stats();
  assert.ok(lease.held && renewed <= 3 && unrenewed <= 2, `${renewed} ${unrenewed}`);
  await lease.release();
});

replay(
  "continues a lock acquired elsewhere, by its identifier",
  "same",
  [...CLASSES, "Mutex, formerly", "RedlockMutex, formerly"],
  async (kind) => {
    const { client, lock, name, has } = mutex(kind.split(",")[0], { ttl: 300, renew: false });
    const elsewhere = await lock.acquire();
    const here = await client.attach(name, elsewhere.token, { ttl: 300 });
    await sleep(500);
    await has(here.token);
    await here.release();
    await has("");
  },
);

replay("taken over by another client: an unhandled rejection", "better", CLASSES, async (kind) => {
  const { lock, write } = mutex(kind);
  const [warned, unhandled] = [[], []];
  const rejection = (error) => unhandled.push(error);
  process.on("unhandledRejection", rejection);
  onWarning((warning) => warned.push(warning.message));
  const lease = await lock.acquire();
  await write("SET", "222");
  await eventually(() => assert.equal(lease.held, false));
  await eventually(() => assert.ok(warned.some((text) => text.includes(lock.key))));
  assert.throws(() => lease.ensureHeld(), { kind: "lost", reason: "taken" });
  process.off("unhandledRejection", rejection);
  onWarning(null);
  assert.deepEqual(unhandled, []);
});

replay("expired: an unhandled rejection", "better", ["Mutex"], async (kind) => {
  const { lock, write } = mutex(kind);
  const unhandled = [];
  const rejection = (error) => unhandled.push(error);
  process.on("unhandledRejection", rejection);
  const lease = await lock.acquire();
  await write("DEL");
  await eventually(() => assert.equal(lease.held, false));
  assert.throws(() => lease.ensureHeld(), { kind: "lost", reason: "missing" });
  process.off("unhandledRejection", rejection);
  assert.deepEqual(unhandled, []);
});

async function tells(kind, ...words) {
  const { lock, write } = mutex(kind, { ttl: 60_000 });
  const lease = await lock.acquire();
  const told = [];
  lease.onLost((error) => told.push([error.kind, lease.held]));
  await write(...words);
  // Not a third of its TTL later, when the refresh would be due.
  await eventually(() => assert.deepEqual(told, [["lost", false]]), 10_000);
}
replay("taken over by another client: onLockLost is called", "better", CLASSES, (kind) =>
  tells(kind, "SET", "222"),
);
replay("expired: onLockLost is called", "better", ["Mutex"], (kind) => tells(kind, "DEL"));

replay(
  "older versions: a deleted key that is free is acquired again at the next refresh",
  "differs",
  ["Mutex"],
  async (kind) => {
    const { lock, write, has } = mutex(kind);
    const lease = await lock.acquire();
    await write("DEL");
    await sleep(400);
    assert.equal(lease.held, false);
    await has("");
  },
);

replay("one object can be used many times", "better", CLASSES, async (kind) => {
  const { lock, has } = mutex(kind, { ttl: 300, wait: 10_000 });
  for (let cycle = 0; cycle < 3; cycle += 1) {
    const lease = await lock.acquire();
    await sleep(350);
    await has(lease.token);
    await lease.release();
    await has("");
  }
  // Many at once as well.
  assert.deepEqual(await Promise.all([1, 2, 3].map((each) => lock.using(() => each))), [1, 2, 3]);
});

replay(
  "older versions: after an empty restart it is acquired again",
  "differs",
  ["Mutex"],
  async (kind) => {
    const { lock } = mutex(kind, { ttl: 300, wait: 5_000 });
    const lease = await lock.acquire();
    await servers.all[0].restart();
    await eventually(() => assert.equal(lease.held, false));
    assert.throws(() => lease.ensureHeld(), { kind: "lost" });
    // The next caller acquires it immediately.
    const next = await lock.acquire();
    await next.release();
  },
);

replay(
  "a server that restarts empty: it is lost, and the next caller acquires it",
  "same",
  ["Mutex"],
  async (kind) => {
    const { lock, has } = mutex(kind, { ttl: 300, wait: 5_000 });
    const told = [];
    const lease = await lock.acquire();
    lease.onLost((error) => told.push(error.kind));
    await servers.all[0].restart();
    await eventually(() => assert.deepEqual(told, ["lost"]));
    const next = await lock.acquire();
    await has(next.token);
    await next.release();
  },
);

replay(
  "three servers stop and restart one by one: it stays held",
  "same",
  ["RedlockMutex"],
  async (kind) => {
    const { lock, values } = mutex(kind, { ttl: 2_000, wait: 300 });
    const lease = await lock.acquire();
    for (const [at, server] of servers.all.entries()) {
      await server.restart();
      await eventually(async () => assert.equal((await values())[at], lease.token), 20_000);
      assert.equal(
        (await failed(mutex(kind, { wait: 300 }, lock.names[0]).lock.acquire())).kind,
        "timeout",
      );
      assert.equal(lease.held, true);
    }
    await lease.release();
  },
);

replay(
  "two of three are down: it is lost, and no client acquires it",
  "same",
  ["RedlockMutex"],
  async (kind) => {
    const { client, lock } = mutex(kind, { ttl: 1_000, wait: 300 });
    const told = [];
    const lease = await lock.acquire();
    lease.onLost((error) => told.push(error.kind));
    for (const server of servers.all.slice(0, 2)) server.process.kill("SIGKILL");
    await eventually(() => assert.deepEqual(told, ["lost"]));
    // On the third server it expires when its TTL ends.
    await eventually(async () => assert.equal(await servers.all[2].cli("GET", lock.key), ""));
    assert.equal(
      (await failed(client.lock(uniqueName(), { wait: 300 }).acquire())).kind,
      "unavailable",
    );
    for (const server of servers.all.slice(0, 2)) await server.begin();
  },
);

replay("works with a mock of the client package", "differs", CLASSES, async (kind) => {
  const names = kind === "Mutex" ? [uniqueName()] : [uniqueName(), uniqueName(), uniqueName()];
  const client = new Redlock(names.map((name) => `memory://${name}`));
  const lease = await client.lock("key").acquire();
  assert.equal(lease.held, true);
  await lease.release();
  assert.equal((await client.lock("key").inspect()).held, false);
});

told();
