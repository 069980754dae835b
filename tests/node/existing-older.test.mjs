// Redlock.fromClient with older releases of ioredis and node-redis, installed beside the newest: the same settings are
// adopted.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import Redis from "ioredis";
import Redis5 from "ioredis-5";
import * as newest from "redis";
import * as redis4 from "redis-4";
import * as redis5 from "redis-5";
import { Redlock } from "redlock-native";
import { refusal, Server, uniqueName } from "./helper.mjs";
import { allSlots } from "./replay/clients.mjs";
import { after, before, describe, test } from "./testing.mjs";

const IOREDIS = { 5: Redis5, 6: Redis };
const NODE_REDIS = { 4: redis4, 5: redis5, 6: newest };
const login = { username: "app", password: "s3c/r:e@t" };
const USER = ["--user", "app", "on", ">s3c/r:e@t", "~*", "&*", "+@all"];
let server;
/** A cluster of one server. */
let cluster;
before(async () => {
  server = await Server.start(USER);
  cluster = await Server.start([...USER, "--cluster-enabled", "yes"]);
  await allSlots(cluster);
});
after(() => Promise.all([server, cluster].map((each) => each?.stop())));

const installed = (name) =>
  JSON.parse(readFileSync(new URL(`../../node_modules/${name}/package.json`, import.meta.url)));

test("the installed packages have the expected major versions", () => {
  const names = { "ioredis-5": "5", ioredis: "6", "redis-4": "4", "redis-5": "5", redis: "6" };
  for (const [name, major] of Object.entries(names)) {
    assert.equal(installed(name).version.split(".")[0], major, name);
  }
});

/** Acquires a lock with the adopted settings, and inspects its connection. */
async function taken(theirs) {
  const client = Redlock.fromClient(theirs);
  const lease = await client.lock(uniqueName(), { wait: 5_000 }).acquire();
  const list = (await server.cli("CLIENT", "LIST")).split("\n");
  const line = list.find((each) => each.includes("name=mine"));
  await lease.release();
  client.close();
  assert.match(line ?? "none", / db=2 /);
  assert.match(line, / user=app /);
}

/** Acquires a lock in the cluster with the adopted settings. */
async function takenInCluster(theirs) {
  const client = Redlock.fromClient(theirs);
  const lease = await client.lock(uniqueName(), { wait: 5_000 }).acquire();
  assert.equal(await cluster.cli("GET", lease.key), lease.token);
  assert.match(await cluster.cli("CLIENT", "LIST"), / user=app /);
  await lease.release();
  client.close();
}

/** Returns the warnings about ignored settings while a body runs. */
async function said(body) {
  const heard = [];
  const hear = ({ message }) => message.includes("fromClient") && heard.push(message);
  process.on("warning", hear);
  body();
  await new Promise(setImmediate);
  process.off("warning", hear);
  return heard;
}

const url = () => `redis://app:s3c%2Fr%3Ae%40t@127.0.0.1:${server.port}/2`;

for (const [major, Client] of Object.entries(IOREDIS)) {
  describe(`ioredis ${major}`, () => {
    const lazy = (options) => new Client({ lazyConnect: true, ...options });

    test("adopts address, user, database and name", () =>
      taken(lazy({ port: server.port, db: 2, connectionName: "mine", ...login })));

    test("adopts a URL", () =>
      taken(new Client(url(), { lazyConnect: true, connectionName: "mine" })));

    test("does not affect the client that it reads", async () => {
      const theirs = new Client({ port: server.port, db: 2, connectionName: "theirs", ...login });
      assert.equal(await theirs.ping(), "PONG");
      const client = Redlock.fromClient(theirs);
      const lease = await client.lock(uniqueName(), { wait: 5_000 }).acquire();
      assert.equal(await theirs.get(lease.key), lease.token);
      client.close();
      theirs.disconnect();
    });

    test("adopts Sentinel services and clusters", () => {
      const sentinels = [{ host: "a", port: 1 }, { host: "b" }];
      const service = lazy({ sentinels, name: "s", db: 3, sentinelPassword: "p" });
      assert.deepEqual(Redlock.fromClient(service).nodes, ["redis+sentinel://a:1,b:26379/s/3"]);
      const cluster = new Client.Cluster(["redis://a:1", { host: "b", port: 2 }], {
        lazyConnect: true,
        redisOptions: { password: "p" },
      });
      assert.deepEqual(Redlock.fromClient(cluster).nodes, ["redis+cluster://a:1,b:2"]);
    });

    test("connects to a real cluster", () =>
      takenInCluster(
        new Client.Cluster([{ host: "127.0.0.1", port: cluster.port }], {
          lazyConnect: true,
          redisOptions: login,
        }),
      ));

    test("emits no warning for default settings", async () => {
      const use = () => Redlock.fromClient([lazy({}), lazy({ db: 1 })]).lock("job", { ttl: 300 });
      assert.deepEqual(await said(use), []);
    });
  });
}

for (const [major, { createClient, createCluster }] of Object.entries(NODE_REDIS)) {
  describe(`node-redis ${major}`, () => {
    test("adopts address, user, database and name", () =>
      taken(createClient({ socket: { port: server.port }, database: 2, name: "mine", ...login })));

    test("adopts a URL", () => taken(createClient({ url: url(), name: "mine" })));

    test("does not affect the client that it reads", async () => {
      const theirs = createClient({ socket: { port: server.port }, database: 2, ...login });
      await theirs.connect();
      const client = Redlock.fromClient(theirs);
      const lease = await client.lock(uniqueName(), { wait: 5_000 }).acquire();
      assert.equal(await theirs.get(lease.key), lease.token);
      client.close();
      assert.equal(await theirs.ping(), "PONG");
      await theirs.disconnect();
    });

    test("adopts clusters", () => {
      const given = { rootNodes: [{ url: "redis://a:1" }, { socket: { host: "b" } }] };
      const nodes = ["redis+cluster://a:1,b:6379"];
      const made = () => Redlock.fromClient(createCluster(given)).nodes;
      // The oldest release does not expose the given settings.
      if (major === "4")
        assert.throws(made, refusal(["version 4", "options of createSentinel or createCluster"]));
      else assert.deepEqual(made(), nodes);
      assert.deepEqual(Redlock.fromClient(given).nodes, nodes);
    });

    test("connects to a real cluster", () => {
      const rootNodes = [{ socket: { host: "127.0.0.1", port: cluster.port } }];
      const given = { rootNodes, defaults: login };
      return takenInCluster(major === "4" ? given : createCluster(given));
    });

    test("adopts the options of createSentinel", () => {
      const given = { name: "s", sentinelRootNodes: [{ host: "a", port: 1 }] };
      assert.deepEqual(Redlock.fromClient(given).nodes, ["redis+sentinel://a:1/s"]);
    });

    test("emits no warning for default settings", async () => {
      const use = () => Redlock.fromClient(createClient({ url: url() })).lock("job", { ttl: 300 });
      assert.deepEqual(await said(use), []);
    });
  });
}
