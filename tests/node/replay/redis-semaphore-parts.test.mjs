// redis-semaphore 5.8.0, the cases for the parts of its mutexes: acquire, refresh, release, and their helpers.
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import * as redlock from "redlock-native";
import { eventually, refusal, uniqueName } from "../helper.mjs";
import { ioredis, over, serversForSuite } from "./clients.mjs";
import { failed, replaying } from "./replay.mjs";

const { Redlock } = redlock;
const { replay, told } = replaying("redis-semaphore 5.8.0, its parts");
const servers = serversForSuite(3);
const SETUPS = ["one server", "three"];
const TOKEN = "1".repeat(32);
const OTHER = "2".repeat(32);

const chosen = (where) => servers.all.slice(0, where === "three" ? 3 : 1);
const client = (where) => over(chosen(where).map(ioredis));
const lockOf = (where, options) =>
  client(where).lock(uniqueName(), { ttl: 200, renew: false, ...options });
const set = (key, values) =>
  Promise.all(
    values.map((value, at) => value && servers.all[at].cli("SET", key, value, "PX", 5_000)),
  );

replay("acquire: true if the lock was free", "same", SETUPS, async (where) => {
  const lease = await lockOf(where).acquire();
  assert.ok(lease.held);
  await lease.release();
});

replay("acquire: false after its timeout", "same", SETUPS, async (where) => {
  const lock = lockOf(where, { ttl: 5_000 });
  const lease = await lock.acquire();
  assert.equal((await failed(lock.acquire({ wait: 500 }))).kind, "timeout");
  await lease.release();
});

replay("acquire: false after a number of attempts", "differs", SETUPS, async (where) => {
  const lock = lockOf(where, { ttl: 5_000 });
  const lease = await lock.acquire();
  assert.equal(await lock.tryAcquire(), null);
  assert.equal((await failed(lock.acquire({ wait: 0 }))).kind, "timeout");
  const theirs = { acquireAttemptsLimit: 1 };
  assert.throws(() => client(where).lock("key", theirs), refusal(["acquireAttemptsLimit"]));
  await lease.release();
});

replay("acquire: the key has the identifier", "same", SETUPS, async (where) => {
  const lock = lockOf(where, { ttl: 5_000 });
  const lease = await lock.acquire();
  for (const server of chosen(where)) {
    await eventually(async () => assert.equal(await server.cli("GET", lock.key), lease.token));
  }
  await lease.release();
});

replay("acquire: the key has the TTL", "same", SETUPS, async (where) => {
  const lock = lockOf(where, { ttl: 5_000 });
  const lease = await lock.acquire();
  for (const server of chosen(where)) {
    await eventually(async () => {
      const left = Number(await server.cli("PTTL", lock.key));
      assert.ok(left > 3_000 && left <= 5_000, `${left}`);
    });
  }
  await lease.release();
});

replay("acquire: waits until it expires", "same", SETUPS, async (where) => {
  const lock = lockOf(where, { ttl: 200, wait: 5_000 });
  const begun = performance.now();
  const first = await lock.acquire();
  const second = await lock.acquire();
  assert.ok(performance.now() - begun >= 190);
  assert.deepEqual([first.held, second.held], [false, true]);
  await second.release();
});

replay("acquire: each name waits separately", "same", SETUPS, async (where) => {
  const locks = [lockOf(where, { wait: 5_000 }), lockOf(where, { wait: 5_000 })];
  const taken = () => Promise.all(locks.map((lock) => lock.acquire()));
  await taken();
  const begun = performance.now();
  const second = await taken();
  // One after the other would take twice that, and more.
  assert.ok(performance.now() - begun >= 100);
  await Promise.all(second.map((lease) => lease.release()));
});

replay("refresh: false if the key does not exist", "same", ["one server"], async (where) => {
  const error = await failed(client(where).attach(uniqueName(), TOKEN, { ttl: 5_000 }));
  assert.deepEqual([error.kind, error.reason], ["lost", "missing"]);
});

replay(
  "refresh: true if the caller holds it, and the TTL is longer",
  "same",
  SETUPS,
  async (where) => {
    const name = uniqueName();
    // Two of three servers have it.
    await set(name, where === "three" ? [TOKEN, TOKEN] : [TOKEN]);
    const lease = await client(where).attach(name, TOKEN, { ttl: 20_000 });
    assert.ok(lease.held && lease.remaining > 10_000);
    await eventually(async () =>
      assert.ok(Number(await servers.all[0].cli("PTTL", name)) > 10_000),
    );
    await lease.release();
  },
);

replay("refresh: false if another client has the majority", "same", ["three"], async (where) => {
  const name = uniqueName();
  await set(name, [TOKEN, OTHER, OTHER]);
  const error = await failed(client(where).attach(name, TOKEN, { ttl: 20_000 }));
  assert.deepEqual([error.kind, error.reason], ["lost", "taken"]);
  assert.equal(await servers.all[1].cli("GET", name), OTHER);
});

replay("refresh: false if too few servers have it", "same", ["three"], async (where) => {
  const name = uniqueName();
  await set(name, [TOKEN]);
  const attached = await client(where)
    .attach(name, TOKEN, { ttl: 2_000 })
    .catch((error) => error);
  assert.equal(attached.kind, "lost", String(attached));
});

replay("release: removes the key", "same", SETUPS, async (where) => {
  const lease = await lockOf(where, { ttl: 5_000 }).acquire();
  await lease.release();
  for (const server of chosen(where)) {
    await eventually(async () => assert.equal(await server.cli("GET", lease.key), ""));
  }
});

replay("release: does nothing without a key", "differs", SETUPS, async (where) => {
  const lease = await lockOf(where, { ttl: 5_000 }).acquire();
  await Promise.all(chosen(where).map((server) => server.cli("DEL", lease.key)));
  await eventually(() => assert.equal(lease.held, false));
  // The caller that relied on it is notified.
  assert.equal((await failed(lease.release())).kind, "lost");
  const other = client(where);
  assert.equal(await other.forceRelease(uniqueName()), false);
});

replay("a refresh during a release does not report a loss", "same", [""], async () => {
  const [one] = servers.all;
  const told = [];
  const lease = await over(ioredis(one)).lock(uniqueName(), { ttl: 3_000 }).acquire();
  lease.onLost((error) => told.push(error));
  // The refresh is due a second after the acquire, and gets no reply then.
  await sleep(900);
  await one.cli("CLIENT", "PAUSE", 300, "ALL");
  await sleep(150);
  await lease.release();
  await sleep(300);
  assert.deepEqual(told, []);
  assert.equal(lease.signal.aborted, false);
});

const COUNTS = [1, 2, 3, 4, 5, 6, 7, 8, 9];
replay(
  "a quorum is more than half of the servers",
  "same",
  COUNTS.map((count) => `of ${count}`),
  async (variant) => {
    const count = Number(variant.slice(3));
    const quorum = Math.floor(count / 2) + 1;
    const urls = Array.from({ length: count }, () => `memory://${uniqueName()}`);
    const name = uniqueName();
    const lock = new Redlock(urls, { restartGuard: 0 }).lock(name, { wait: 100 });
    const held = [];
    for (const [at, url] of urls.entries()) {
      // As long as a quorum is free.
      const lease = await lock.acquire().catch((error) => error);
      assert.equal(lease.held === true, count - at >= quorum, `${at} of ${count} held: ${lease}`);
      if (lease.held) await lease.release();
      held.push(await new Redlock(url).lock(name).acquire());
    }
    await Promise.all(held.map((lease) => lease.release()));
  },
);

replay("scripts: made, run, and their errors", "no equivalent", ["made", "run", "errors"], () => {
  assert.equal(redlock.createEval, undefined);
});

replay("the package has its documented exports", "same", [""], () => {
  const has = new Set(Object.keys(redlock));
  for (const name of ["Redlock", "lock", "withLock", "configure", "LockTimeout", "LockLost"]) {
    assert.ok(has.has(name), name);
  }
});

told();
