// Servers that announce addresses at which this client cannot reach them, and where it reaches them instead.
import assert from "node:assert/strict";
import { setImmediate as nextTurn } from "node:timers/promises";
import Redis from "ioredis";
import { createCluster } from "redis";
import { Redlock } from "redlock-native";
import { eventually, freePort, refusal, Server } from "./helper.mjs";
import { after, before, describe, test } from "./testing.mjs";

/** A server that is a whole cluster and announces another port, at which nothing listens. */
let server;
let announced;
let url;
before(async () => {
  announced = await freePort();
  server = await Server.start(["--cluster-enabled", "yes", "--cluster-announce-port", announced]);
  for (let first = 0; first < 16_384; first += 4096) {
    const slots = Array.from({ length: 4096 }, (_, at) => first + at);
    await server.cli("CLUSTER", "ADDSLOTS", ...slots);
  }
  const state = async () => await server.cli("CLUSTER", "INFO");
  await eventually(async () => assert.match(await state(), /cluster_state:ok/));
  url = `redis+cluster://127.0.0.1:${server.port}`;
});
after(() => server?.stop());

async function locks(client) {
  await (await client.lock("job", { wait: 5000 }).acquire()).release();
  client.close();
}

/** Returns why the only node does not reply. A ping waits for its first failure, and an acquire for its `wait`. */
async function pingError(client) {
  const { nodes } = await client.ping(20_000);
  client.close();
  return nodes[0].error;
}

const key = () => `127.0.0.1:${announced}`;
const place = () => ({ host: "127.0.0.1", port: server.port });

test("an object leads to the server", async () => {
  await locks(new Redlock(url, { addressMap: { [key()]: `127.0.0.1:${server.port}` } }));
});

test("a function may be async, and is called without this", async () => {
  const asked = [];
  async function addressMap(host, port) {
    asked.push([this, host, port]);
    await nextTurn();
    return place();
  }
  const client = new Redlock(url, { addressMap });
  assert.deepEqual(asked, []);
  await locks(client);
  assert.deepEqual(asked[0], [undefined, "127.0.0.1", announced]);
});

test("an error names the announcing server and the option", async () => {
  const said = `${key()} was announced by 127.0.0.1:${server.port}; set addressMap`;
  const error = await pingError(new Redlock(url));
  assert.ok(error.includes(said), error);
});

describe("a wrong result is a clear error:", () => {
  const rows = [
    ["throws", () => assert.fail("no such host"), "addressMap threw AssertionError: no such host"],
    ["undefined", () => undefined, "must return { host, port }"],
    ["null", async () => null, "(got a value of type null)"],
    ["a string", () => "127.0.0.1:1", "(got a value of type string)"],
    ["no host", () => ({ port: 1 }), "(got a host of type undefined)"],
    ["a port as text", () => ({ host: "h", port: "1" }), "(got the port"],
    ["the port 0", () => ({ host: "h", port: 0 }), "(got the port 0)"],
    ["a URL", () => ({ host: "redis://:s3cret@h", port: 1 }), "not the name or address of a host"],
  ];
  for (const [name, addressMap, said] of rows) {
    test(name, async () => {
      const error = await pingError(new Redlock(url, { addressMap }));
      assert.ok(error.includes(said) && error.includes(`(for ${key()})`), error);
      assert.ok(!error.includes("s3cret"), error);
    });
  }
});

describe("a wrong option is refused at once:", () => {
  const rows = [
    ["a string", "127.0.0.1:1", "addressMap must be an object"],
    ["a Map", new Map(), "addressMap must be an object"],
    ["null", null, "addressMap must be an object"],
    ["a number as a value", { "h:1": 1 }, "as a value"],
    ["no port", { h: "h:1" }, 'contains "h", which is not host:port'],
    ["a URL as a value", { "h:1": "redis://:s3cret@h" }, "may contain a password"],
  ];
  for (const [name, addressMap, said] of rows) {
    test(name, () => {
      const made = () => new Redlock("redis+cluster://h", { addressMap });
      assert.throws(made, refusal([said], ["s3cret"]));
    });
  }
  test("no node announces addresses", () => {
    const made = () => new Redlock("redis://h", { addressMap: { "h:1": "h:2" } });
    assert.throws(made, refusal(["addressMap is set", "redis+cluster://"]));
  });
});

describe("fromClient adopts", () => {
  const maps = [
    ["an object", () => ({ [key()]: place() })],
    ["a function", () => (address) => (address === key() ? place() : undefined)],
  ];
  for (const [name, map] of maps) {
    test(`the natMap of ioredis, ${name}`, async () => {
      const options = { lazyConnect: true, natMap: map() };
      const theirs = new Redis.Cluster([{ host: "127.0.0.1", port: server.port }], options);
      await locks(Redlock.fromClient(theirs));
      assert.doesNotThrow(() => Redlock.fromClient(theirs, { addressMap: {} }).close());
    });
    test(`the nodeAddressMap of node-redis, ${name}`, async () => {
      const rootNodes = [{ url: `redis://127.0.0.1:${server.port}` }];
      await locks(Redlock.fromClient(createCluster({ rootNodes, nodeAddressMap: map() })));
    });
  }
  test("rejects clients with different address maps", () => {
    const theirs = [1, 2].map(
      (port) => new Redis.Cluster([{ port }], { lazyConnect: true, natMap: {} }),
    );
    assert.throws(() => Redlock.fromClient(theirs), refusal(["different natMap"]));
  });
  test("TLS of only the sentinels or only their servers", () => {
    const nodes = (options) => {
      const sentinels = [{ host: "a", port: 1 }];
      return Redlock.fromClient(new Redis({ lazyConnect: true, sentinels, name: "s", ...options }))
        .nodes;
    };
    assert.deepEqual(nodes({ sentinelTLS: {} }), ["redis+sentinel://a:1/s"]);
    const servers = { tls: {}, enableTLSForSentinelMode: true };
    assert.deepEqual(nodes(servers), ["rediss+sentinel://a:1/s"]);
    const options = { name: "s", sentinelRootNodes: [{ host: "a", port: 1 }] };
    const secured = { socket: { tls: true } };
    const ofNodeRedis = (more) => Redlock.fromClient({ ...options, ...more }).nodes;
    assert.deepEqual(ofNodeRedis({ sentinelClientOptions: secured }), ["redis+sentinel://a:1/s"]);
    assert.deepEqual(ofNodeRedis({ nodeClientOptions: secured }), ["rediss+sentinel://a:1/s"]);
  });
});
