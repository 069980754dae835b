// node-redlock 5.0.0-beta.2, single.test.ts and multi.test.ts: 11 cases, each over servers and over clusters.
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { freePort, refusal, uniqueName } from "../helper.mjs";
import { cluster, ioredis, over, serversForSuite } from "./clients.mjs";
import { failed, replaying } from "./replay.mjs";

const { replay, told } = replaying("node-redlock 5.0.0-beta.2");
const KINDS = {
  instance: { servers: serversForSuite(3), made: ioredis },
  cluster: { servers: serversForSuite(3, ["--cluster-enabled", "yes"]), made: cluster },
};
const EACH_KIND = Object.keys(KINDS);
const DAY = 86_400_000;

/** Our client over one of the place's servers, or over all of them. */
function at(kind, count = 1) {
  const { servers, made } = KINDS[kind];
  return { client: over(servers.all.slice(0, count).map(made)), servers };
}
/** In one slot, as in node-redlock's tests. */
const tagged = () => `{redlock}${uniqueName()}`;

async function lives({ client, servers }, names, count) {
  const seen = async (key) => (await servers.get(key)).slice(0, count);
  const left = async (key) => (await servers.ttl(key)).slice(0, count);
  const all = (value) => Array(count).fill(value);
  const lease = await client.lock(names, { ttl: DAY, wait: 5_000, renew: false }).acquire();
  // A reply that comes after the quorum is slightly later.
  await sleep(50);
  for (const key of names) {
    assert.deepEqual(await seen(key), all(lease.token));
    for (const ms of await left(key)) assert.ok(ms > DAY - 10_000 && ms <= DAY, `${ms}`);
  }
  await lease.extend(3 * DAY);
  await sleep(50);
  for (const key of names) {
    assert.deepEqual(await seen(key), all(lease.token));
    for (const ms of await left(key)) assert.ok(ms > 3 * DAY - 10_000 && ms <= 3 * DAY, `${ms}`);
  }
  await lease.release();
  await sleep(50);
  for (const key of names) assert.deepEqual(await seen(key), all(""));
  // In node-redlock they last for 28,000 years.
  const ages = () => client.lock(names, { ttl: Number.MAX_SAFE_INTEGER / 10 });
  assert.throws(ages, refusal(["ttl"]));
  client.close();
}

replay("acquires, extends and releases one name, for years", "differs", EACH_KIND, (kind) =>
  lives(at(kind), [tagged()], 1),
);

replay("acquires, extends and releases several names, for years", "differs", EACH_KIND, (kind) =>
  lives(at(kind), [tagged(), tagged()], 1),
);

replay("fails if no server can be reached", "same", EACH_KIND, async (kind) => {
  const nobody = KINDS[kind].made({ port: await freePort() });
  const client = over(nobody);
  const error = await failed(client.lock(tagged(), { wait: 300 }).acquire());
  assert.equal(error.kind, "unavailable");
  assert.ok(error.nodes[0].error.length > 0);
  client.close();
});

replay("locks expire", "same", EACH_KIND, async (kind) => {
  const { client, servers } = at(kind);
  const name = tagged();
  await client.lock(name, { ttl: 200, renew: false }).acquire();
  await sleep(300);
  const second = await client.lock(name, { ttl: 200, wait: 2_000 }).acquire();
  assert.equal((await servers.get(name))[0], second.token);
  await second.release();
  assert.equal((await servers.get(name))[0], "");
  client.close();
});

replay("one name has one holder", "differs", EACH_KIND, async (kind) => {
  const { client, servers } = at(kind);
  const name = tagged();
  const lease = await client.lock(name, { ttl: DAY }).acquire();
  const error = await failed(client.lock(name, { wait: 200 }).acquire());
  // The current holder and the remaining time. No number of attempts is given, because clients do not poll.
  assert.ok(error.kind === "timeout" && error.remaining > 0);
  await lease.release();
  assert.equal((await servers.get(name))[0], "");
  client.close();
});

replay("several names that overlap have one holder", "differs", EACH_KIND, async (kind) => {
  const { client, servers } = at(kind);
  const [one, two, three] = [tagged(), tagged(), tagged()];
  const lease = await client.lock([one, two], { ttl: DAY }).acquire();
  assert.equal((await failed(client.lock([two, three], { wait: 200 }).acquire())).kind, "timeout");
  for (const [name, value] of [
    [one, lease.token],
    [two, lease.token],
    [three, ""],
  ]) {
    assert.equal((await servers.get(name))[0], value);
  }
  await lease.release();
  for (const name of [one, two, three]) assert.equal((await servers.get(name))[0], "");
  client.close();
});

/** Held for longer than its TTL, by one at a time. */
async function routine({ client, servers }, name, inside) {
  return client.using(name, { ttl: 300, wait: 10_000 }, async (lease) => {
    assert.equal(inside.now, 0);
    inside.now += 1;
    const [value] = await servers.get(name);
    assert.equal(value, lease.token);
    await sleep(400);
    assert.equal(lease.signal.aborted, false);
    assert.deepEqual(await servers.get(name).then(([again]) => again), value);
    inside.now -= 1;
    return value;
  });
}

replay("using acquires, extends and releases", "same", EACH_KIND, async (kind) => {
  const place = at(kind);
  const name = tagged();
  assert.match(await routine(place, name, { now: 0 }), /^[0-9a-f]{32}$/);
  assert.equal((await place.servers.get(name))[0], "");
  place.client.close();
});

replay("using admits one caller at a time", "same", EACH_KIND, async (kind) => {
  const place = at(kind);
  const [name, inside] = [tagged(), { now: 0 }];
  const both = [routine(place, name, inside), routine(place, name, inside)];
  const [first, second] = await Promise.all(both);
  assert.notEqual(first, second);
  assert.equal((await place.servers.get(name))[0], "");
  place.client.close();
});

replay(
  "over three: acquires, extends and releases one name, for years",
  "differs",
  EACH_KIND,
  (kind) => lives(at(kind, 3), [tagged()], 3),
);

replay("over three: another client's key on one has no effect", "same", EACH_KIND, async (kind) => {
  const { client, servers } = at(kind, 3);
  const name = tagged();
  const third = servers.all[2];
  await third.cli("SET", name, "other");
  const lease = await client.lock(name, { ttl: DAY, wait: 5_000 }).acquire();
  await lease.extend(3 * DAY);
  await sleep(50);
  assert.deepEqual(await servers.get(name), [lease.token, lease.token, "other"]);
  const [first, second, other] = await servers.ttl(name);
  assert.ok(first > 2 * DAY && second > 2 * DAY && other === -1);
  await lease.release();
  await sleep(50);
  assert.deepEqual(await servers.get(name), ["", "", "other"]);
  client.close();
});

replay(
  "over three: keys of others on two servers fail it, and its vote is rolled back",
  "same",
  EACH_KIND,
  async (kind) => {
    const { client, servers } = at(kind, 3);
    const name = tagged();
    await servers.all[1].cli("SET", name, "other1");
    await servers.all[2].cli("SET", name, "other2");
    const error = await failed(client.lock(name, { wait: 200 }).acquire());
    assert.equal(error.kind, "timeout");
    // The vote of each server.
    const { nodes } = await client.lock(name).inspect();
    assert.deepEqual(
      nodes.map(({ state }) => state),
      ["free", "held", "held"],
    );
    await sleep(50);
    assert.deepEqual(await servers.get(name), ["", "other1", "other2"]);
    client.close();
  },
);

told();
