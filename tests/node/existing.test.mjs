// Redlock.fromClient: the server settings of ioredis and node-redis clients are adopted or named.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:net";
import { join } from "node:path";
import Redis from "ioredis";
import { createClient, createCluster } from "redis";
import { Redlock } from "redlock-native";
import { refusal, Server, silentNodesForSuite, uniqueName } from "./helper.mjs";
import { after, before, describe, test } from "./testing.mjs";

const lazy = (options) => new Redis({ lazyConnect: true, ...options });
const cluster = (roots, options) => new Redis.Cluster(roots, { lazyConnect: true, ...options });
const nodesOf = (client, options) => Redlock.fromClient(client, options).nodes;

describe("with a server that needs a user", () => {
  let server;
  before(async () => {
    const user = ["--user", "a/p:p", "on", ">s3c/r:e@t", "~*", "&*", "+@all"];
    server = await Server.start([...user, "--unixsocket", "socket"]);
  });
  after(() => server?.stop());

  /** Returns the server's data on the connection of a client that holds a lock there. */
  async function seen(client) {
    const lease = await client.lock(uniqueName(), { wait: 2_000 }).acquire();
    const list = (await server.cli("CLIENT", "LIST")).split("\n");
    const [line] = list.filter((each) => each.includes("name=mine"));
    await lease.release();
    client.close();
    return line;
  }

  const login = { username: "a/p:p", password: "s3c/r:e@t" };
  const ways = {
    ioredis: () => lazy({ port: server.port, db: 2, connectionName: "mine", ...login }),
    "ioredis by its URL": () =>
      new Redis(`redis://a%2Fp%3Ap:s3c%2Fr%3Ae%40t@127.0.0.1:${server.port}/2`, {
        lazyConnect: true,
        connectionName: "mine",
      }),
    "node-redis": () =>
      createClient({ socket: { port: server.port }, database: 2, name: "mine", ...login }),
    "node-redis by its URL": () =>
      createClient({
        url: `redis://a%2Fp%3Ap:s3c%2Fr%3Ae%40t@127.0.0.1:${server.port}/2`,
        name: "mine",
      }),
    "ioredis, in bytes": () =>
      lazy({
        port: server.port,
        db: 2,
        connectionName: "mine",
        username: login.username,
        password: new Uint8Array(Buffer.from(login.password)),
      }),
    "node-redis, in bytes": () =>
      createClient({
        socket: { port: server.port },
        database: 2,
        name: "mine",
        username: Buffer.from(login.username),
        password: Buffer.from(login.password),
      }),
    "node-redis with a provider": () =>
      createClient({
        socket: { port: server.port },
        database: 2,
        name: "mine",
        credentialsProvider: { type: "async-credentials-provider", credentials: async () => login },
      }),
  };
  for (const [name, make] of Object.entries(ways)) {
    test(`adopts address, user, database and name from ${name}`, async () => {
      const client = Redlock.fromClient(make());
      assert.match(client.nodes[0], new RegExp(`^redis://\\S+:${server.port}/2$`));
      const line = await seen(client);
      assert.match(line, / db=2 /);
      assert.match(line, / user=a\/p:p /);
    });
  }

  test("adopts the user of a Unix socket", async () => {
    const path = join(server.folder, "socket");
    const theirs = [lazy({ path, db: 2, connectionName: "mine", ...login })];
    theirs.push(createClient({ socket: { path }, database: 2, name: "mine", ...login }));
    for (const each of theirs) {
      const line = await seen(Redlock.fromClient(each));
      assert.match(line, / db=2 .* user=a\/p:p /);
    }
  });

  test("options take precedence over adopted settings", async () => {
    const theirs = lazy({ port: server.port, password: "wrong", connectionName: "theirs" });
    const client = Redlock.fromClient(theirs, {
      keyPrefix: "app:",
      clientName: "mine",
      credentials: () => login,
    });
    assert.equal(client.lock("job").key, "app:job");
    assert.match(await seen(client), / user=a\/p:p /);
  });

  test("does not affect the client that it reads", async () => {
    const theirs = createClient({ socket: { port: server.port }, ...login });
    await theirs.connect();
    const client = Redlock.fromClient(theirs);
    const lease = await client.lock(uniqueName(), { wait: 2_000 }).acquire();
    assert.equal(await theirs.get(lease.key), lease.token);
    client.close();
    assert.equal(await theirs.ping(), "PONG");
    theirs.destroy();
  });
});

test("a list of clients of either package is a quorum", async () => {
  const servers = await Promise.all([Server.start(), Server.start(), Server.start()]);
  try {
    const [one, two, three] = servers.map((server) => server.port);
    const theirs = [
      lazy({ port: one }),
      createClient({ socket: { port: two } }),
      lazy({ port: three }),
    ];
    const client = Redlock.fromClient(theirs, { restartGuard: 0 });
    const lease = await client.lock(uniqueName(), { wait: 2_000 }).acquire();
    for (const server of servers) assert.equal(await server.cli("GET", lease.key), lease.token);
    await lease.release();
    assert.throws(() => Redlock.fromClient([theirs[0], theirs[0]]), refusal(["twice"]));
  } finally {
    await Promise.all(servers.map((server) => server.stop()));
  }
});

describe("the node URL is", () => {
  const rows = [
    ["ioredis' own default", lazy({}), "redis://localhost:6379"],
    ["an IPv6 address", lazy({ host: "::1" }), "redis://[::1]:6379"],
    ["a socket of the machine", lazy({ path: "/tmp/a b" }), "unix:///tmp/a b"],
    ["by TLS", lazy({ host: "h", tls: {} }), "rediss://h:6379"],
    ["by TLS, by URL", new Redis("rediss://h:1", { lazyConnect: true }), "rediss://h:1"],
    [
      "a service",
      lazy({ sentinels: [{ host: "a", port: 1 }, { host: "b" }], name: "s", db: 3 }),
      "redis+sentinel://a:1,b:26379/s/3",
    ],
    [
      "a service, all by TLS",
      lazy({
        sentinels: [{ host: "a" }],
        name: "s",
        tls: {},
        sentinelTLS: {},
        enableTLSForSentinelMode: true,
      }),
      "rediss+sentinel://a:26379/s",
    ],
    [
      "a cluster",
      cluster([{ host: "a", port: 1 }, "redis://b:2", 3, "c:4"]),
      "redis+cluster://a:1,b:2,127.0.0.1:3,c:4",
    ],
    [
      "a cluster by TLS",
      cluster(["rediss://a:1"], { redisOptions: { password: "p" } }),
      "rediss+cluster://a:1",
    ],
    ["node-redis' own default", createClient(), "redis://localhost:6379"],
    ["node-redis by TLS", createClient({ url: "rediss://h:1/4" }), "rediss://h:1/4"],
    ["node-redis' socket", createClient({ socket: { path: "/tmp/x" } }), "unix:///tmp/x"],
    [
      "node-redis' cluster",
      createCluster({
        rootNodes: [{ url: "redis://a:1" }, { socket: { host: "b" } }],
        defaults: { username: "u", password: "p" },
      }),
      "redis+cluster://a:1,b:6379",
    ],
    [
      "node-redis' cluster by TLS",
      createCluster({ rootNodes: [{ url: "redis://a:1" }], defaults: { socket: { tls: true } } }),
      "rediss+cluster://a:1",
    ],
    [
      "what createSentinel is given",
      {
        name: "s",
        sentinelRootNodes: [{ host: "a", port: 1 }],
        nodeClientOptions: { database: 2 },
      },
      "redis+sentinel://a:1/s/2",
    ],
  ];
  for (const [name, client, url] of rows) {
    test(name, () => assert.deepEqual(nodesOf(client), [url]));
  }
});

test("adopts explicit timeouts, but not the defaults of the packages", () => {
  for (const theirs of [lazy({}), createClient()]) {
    assert.equal(Redlock.fromClient(theirs).lock("job", { ttl: 300 }).key, "lock:job");
  }
  const slow = [
    lazy({ commandTimeout: 3_000 }),
    createClient({ commandOptions: { timeout: 3_000 } }),
  ];
  for (const theirs of slow) {
    const lock = () => Redlock.fromClient(theirs).lock("job", { ttl: 2_000 });
    assert.throws(lock, refusal(["nodeTimeout must be", "(got 3"]));
    const ours = Redlock.fromClient(theirs, { nodeTimeout: 500 });
    assert.equal(ours.lock("job", { ttl: 2_000 }).key, "lock:job");
  }
});

describe("settings that redlock does not support", () => {
  /** The next warning that matches. Clients of earlier tests may emit others. */
  const warningOf = (pattern) =>
    new Promise((resolve) => {
      const listen = ({ message }) => {
        if (!pattern.test(message)) return;
        process.off("warning", listen);
        resolve(message);
      };
      process.on("warning", listen);
    });

  test("are listed in one warning", async () => {
    const warned = warningOf(/fromClient/);
    nodesOf([
      new Redis("redis://a?zone=s3cret", { lazyConnect: true }),
      lazy({ other: 1, third: null }),
    ]);
    assert.match(await warned, /does not support: other, zone$/);
  });

  test("include rejectUnauthorized: false, which causes a warning", async () => {
    const warned = warningOf(/tlsVerify is off.*rediss:..unseen/);
    nodesOf(lazy({ host: "unseen", tls: { rejectUnauthorized: false } }));
    await warned;
  });

  test("cause no warning if they do not affect a lock", async () => {
    const heard = [];
    const hear = ({ message }) => message.includes("fromClient") && heard.push(message);
    process.on("warning", hear);
    nodesOf(lazy({ keepAlive: 5, maxRetriesPerRequest: null, enableAutoPipelining: true }));
    nodesOf(createClient({ pingInterval: 5, RESP: 2, socket: { noDelay: true } }));
    await new Promise(setImmediate);
    process.off("warning", hear);
    assert.deepEqual(heard, []);
  });
});

test("sentinels and cluster URLs receive the adopted credentials", async () => {
  const heard = [];
  const sentinel = createServer((socket) => {
    socket.on("error", () => undefined);
    socket.on("data", (bytes) => {
      heard.push(`${bytes}`);
      socket.destroy();
    });
  });
  await once(sentinel.listen(0, "127.0.0.1"), "listening");
  try {
    const sentinels = [{ host: "127.0.0.1", port: sentinel.address().port }];
    const login = { username: "us/er", password: "s:nt/l" };
    const theirs = [
      lazy({
        sentinels,
        name: "s",
        sentinelUsername: login.username,
        sentinelPassword: login.password,
      }),
      { name: "s", sentinelRootNodes: sentinels, sentinelClientOptions: login },
      cluster([`redis://us%2Fer:s%3Ant%2Fl@127.0.0.1:${sentinels[0].port}`]),
    ];
    for (const each of theirs) {
      heard.length = 0;
      const redlock = Redlock.fromClient(each);
      await assert.rejects(redlock.lock("job", { wait: 500 }).acquire(), { kind: "unavailable" });
      redlock.close();
      const said = heard.join("");
      assert.ok(said.includes(login.username) && said.includes(login.password), said);
    }
  } finally {
    sentinel.close();
  }
});

describe("fromClient does not connect", () => {
  const silent = silentNodesForSuite(2);
  test("before the first use", () => {
    const [one, two] = silent.ports;
    Redlock.fromClient([lazy({ port: one }), createClient({ socket: { port: two } })]).lock("job");
  });
});
