// Redlock.fromClient: refused settings, and the replacements that it suggests.
import assert from "node:assert/strict";
import { inspect } from "node:util";
import Redis from "ioredis";
import { createClient, createClientPool, createCluster, createSentinel } from "redis";
import { InvalidOption, Redlock } from "redlock-native";
import { refusal } from "./helper.mjs";
import { describe, test } from "./testing.mjs";

const lazy = (options) => new Redis({ lazyConnect: true, ...options });
const cluster = (roots, options) => new Redis.Cluster(roots, { lazyConnect: true, ...options });
/** Like an object of ioredis, whose constructor would change some of these. */
const raw = (options) => ({ isCluster: false, options });
const nodesOf = (client, options) => Redlock.fromClient(client, options).nodes;

const PEM = "-----BEGIN s3cret";
const streaming = { type: "streaming-credentials-provider", subscribe: () => undefined };
const asks = () => ({ type: "async-credentials-provider", credentials: async () => ({}) });

describe("rejects with a replacement:", () => {
  const secured = (tls) => lazy({ host: "h", tls });
  const rows = [
    ["a URL", "redis://:s3cret@a", "of class|string"],
    ["null", null, "null"],
    ["a pool", createClientPool({ url: "redis://a" }), "do not expose their settings"],
    [
      "a sentinel",
      createSentinel({ name: "s", sentinelRootNodes: [{ host: "a", port: 1 }] }),
      "createSentinel",
    ],
    ["another object", { password: "s3cret" }, "Object"],
    ["an empty list", [], "list of clients is empty"],
    ["one invalid client in a list", [lazy({}), undefined], "undefined"],
    ["ca", secured({ ca: PEM }), "tls.ca.*tlsCa"],
    ["cert", secured({ cert: PEM }), "tls.cert.*tlsCert"],
    ["key", secured({ key: PEM }), "tls.key.*tlsKey"],
    ["ca of node-redis", createClient({ url: "rediss://h", socket: { ca: PEM } }), "tls.ca.*tlsCa"],
    ["checkServerIdentity", secured({ checkServerIdentity: () => undefined }), "tlsServerName"],
    ["ciphers", secured({ ciphers: "s3cret" }), "tls.ciphers"],
    ["minVersion", secured({ minVersion: "TLSv1.3" }), "tls.minVersion"],
    ["another host for TLS", secured({ host: "s3cret" }), "tls.host"],
    ["keyPrefix", lazy({ keyPrefix: "s3cret:" }), "keyPrefix.*Set keyPrefix"],
    ["readOnly", lazy({ readOnly: true }), "primary"],
    ["readonly", createClient({ readonly: true }), "primary"],
    ["replicas", lazy({ sentinels: [{ host: "a" }], name: "s", role: "slave" }), "primary"],
    [
      "startup nodes that differ",
      cluster([{ host: "a", password: "s3cret" }, { host: "b" }]),
      "differ",
    ],
    [
      "root nodes that differ",
      createCluster({ rootNodes: [{ url: "redis://:s3cret@a" }, { url: "redis://b" }] }),
      "differ",
    ],
    [
      "a provider that streams",
      createClient({ credentialsProvider: streaming }),
      "Set credentials",
    ],
    [
      "two providers",
      [1, 2].map((port) => createClient({ socket: { port }, credentialsProvider: asks() })),
      "one function",
    ],
    [
      "two names",
      ["a", "b"].map((host) => lazy({ host, tls: { servername: host } })),
      "one tlsServerName",
    ],
  ];
  for (const [name, clients, words] of rows) {
    test(name, () => {
      assert.throws(
        () => Redlock.fromClient(clients),
        (error) => {
          assert.ok(error instanceof InvalidOption, String(error));
          assert.match(error.message, new RegExp(words));
          assert.doesNotMatch(error.message, /s3cret/);
          return true;
        },
      );
    });
  }

  test("an error of a getter becomes the cause", () => {
    const theirs = Object.defineProperty({}, "isCluster", { get: () => assert.fail("s3cret") });
    assert.throws(
      () => Redlock.fromClient(theirs),
      refusal(["cannot read the client"], ["s3cret"]),
    );
  });

  test("an unknown option is rejected", () => {
    assert.throws(() => Redlock.fromClient(lazy({}), { ttl: 1 }), refusal(["ttl"]));
  });
});

test("the suggested replacements work", () => {
  const named = { tlsServerName: "a.b" };
  nodesOf(lazy({ tls: { checkServerIdentity: () => undefined } }), named);
  nodesOf(
    ["a", "b"].map((host) => lazy({ host, tls: { servername: host } })),
    named,
  );
  nodesOf(lazy({ tls: { ca: PEM, rejectUnauthorized: false } }));
  assert.deepEqual(new Redlock("unix:///run/redis@a.sock").nodes, ["unix:///run/redis@a.sock"]);
  nodesOf(raw({ commandTimeout: "1500", connectTimeout: 1500.5, family: "6" }));
  nodesOf(lazy({ tls: { minVersion: "TLSv1.2", servername: "a.b" } }));
  nodesOf(createClient({ credentialsProvider: streaming }), { credentials: () => "p" });
  const client = Redlock.fromClient(lazy({ keyPrefix: "app:" }), { keyPrefix: "app:lock:" });
  assert.equal(client.lock("job").key, "app:lock:job");
});

const lazyUrl = (url) => new Redis(url, { lazyConnect: true });
/** Returns a secret when it is converted to a string. */
const secretProxy = new Proxy({}, { get: () => "s3cret" });
const UNREADABLE = [
  ["half a character", () => "s3cret\udcff"],
  ["a word", () => "s3cret"],
  ["a symbol", () => Symbol("s3cret")],
  ["an object without a prototype", () => Object.assign(Object.create(null), { s3cret: 1 })],
  ["an object with a text", () => ({ toString: () => "s3cret" })],
  ["a list", () => ["s3cret"]],
  ["a proxy", () => secretProxy],
];

describe("rejects without showing the value:", () => {
  const bytes = Buffer.from([0x73, 0x33, 0x63, 0x72, 0x65, 0x74, 0xff]);
  const hosts = ["evil@other", "one/2", "one,two", "a b", "u:s3cret@h", "u:s3cret", "[::1]"];
  const rows = [
    ...hosts.map((host) => [
      `the host ${host}`,
      raw({ host }),
      "host must be a host name or an IP address",
    ]),
    [
      "a host that is an object",
      raw({ host: { name: "s3cret" } }),
      "host must be UTF-8 text .got an object of class Object",
    ],
    ["a port", raw({ host: "h", port: "6379/s3cret" }), "port must be a whole number .got string"],
    ["a db", raw({ host: "h", db: "s3cret" }), "db must be a whole number .got string"],
    ["a password in bytes", lazy({ password: bytes }), "password must be UTF-8 text"],
    ["a user in bytes", lazy({ username: bytes, password: "p" }), "username must be UTF-8"],
    ["bytes of node-redis", createClient({ password: bytes }), "password must be UTF-8"],
    [
      "a password of the sentinels",
      raw({ sentinels: [{ host: "a" }], name: "s", sentinelPassword: bytes }),
      "sentinels' password must be UTF-8",
    ],
    ["half a character", raw({ password: "s3cret\ud800" }), "password must be UTF-8"],
    [
      "an object",
      raw({ password: { s3cret: "s3cret" } }),
      "password must be UTF-8 text .got an object of class Object",
    ],
    ["a symbol", raw({ password: Symbol("s3cret") }), "password must be UTF-8 text .got symbol"],
    ...[
      "valkey://u:s3cret@h:1",
      "foo://u:s3cret@h",
      "valkey://:s3cret@h/2",
      "valkey:/u:s3cret@h",
    ].map((url) => [
      `${url} of ioredis`,
      lazyUrl(url),
      "path must be the absolute path.*use redis://",
    ]),
    ...["//s3cret/sock", "/s3cret@h", "s3cret/sock", "@s3cret", "/tmp/\n@s3cret"].flatMap(
      (path) => [
        [`the path ${path}`, raw({ path }), "path must be the absolute path"],
        [
          `the path ${path} of node-redis`,
          { options: { socket: { path } }, sendCommand: () => undefined },
          "path must be the absolute path",
        ],
      ],
    ),
    [
      "a path in a URL of node-redis",
      createClient({ url: "unix:////u:s3cret@h" }),
      "path must be the absolute path",
    ],
    ...["commandTimeout", "connectTimeout", "family"].flatMap((name) =>
      UNREADABLE.map(([what, value]) => [
        `${what} as ${name}`,
        raw({ [name]: value() }),
        `${name} must be (a time|4, 6 or 0)`,
      ]),
    ),
    ["a least version of TLS", raw({ tls: { minVersion: secretProxy } }), "tls.minVersion"],
    [
      "an error of a host getter",
      raw(Object.defineProperty({}, "host", { get: () => assert.fail("no") })),
      "cannot read the client",
    ],
    [
      "a URL of a cluster's server",
      { isCluster: true, options: {}, startupNodes: ["redis://:s3cret@h:99999"] },
      "URL .*not shown",
    ],
    [
      "a URL of node-redis' cluster",
      { rootNodes: [{ url: "redis://:s3cret@h:99999" }] },
      "URL .*not shown",
    ],
  ];
  for (const [name, client, words] of rows) {
    test(name, () => {
      assert.throws(
        () => Redlock.fromClient(client),
        (error) => {
          assert.equal(error.kind, "invalid");
          assert.match(error.message, new RegExp(words));
          // Without the lines and columns of the stack, which may be equal to a value.
          const whole = inspect(error, { depth: null, showHidden: true });
          const printed = whole.replace(/:\d+:\d+/g, "");
          for (const secret of ["s3cret", "evil@other", "one/2", "115", "255"]) {
            assert.ok(!printed.includes(secret), printed);
          }
          return true;
        },
      );
    });
  }
});
