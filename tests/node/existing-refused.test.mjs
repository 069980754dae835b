// Redlock.fromClient: what it refuses, and what it says to give instead.
import assert from "node:assert/strict";
import Redis from "ioredis";
import { createClient, createClientPool, createCluster, createSentinel } from "redis";
import { InvalidOption, Redlock } from "redlock-native";
import { refusal } from "./helper.mjs";
import { describe, test } from "./testing.mjs";

const lazy = (options) => new Redis({ lazyConnect: true, ...options });
const cluster = (roots, options) => new Redis.Cluster(roots, { lazyConnect: true, ...options });
const nodesOf = (client, options) => Redlock.fromClient(client, options).nodes;

const PEM = "-----BEGIN s3cret";
const streaming = { type: "streaming-credentials-provider", subscribe: () => undefined };
const asks = () => ({ type: "async-credentials-provider", credentials: async () => ({}) });

describe("refused, and what to give instead:", () => {
  const secured = (tls) => lazy({ host: "h", tls });
  const rows = [
    ["a URL", "redis://:s3cret@a", "of class|string"],
    ["null", null, "null"],
    ["a pool", createClientPool({ url: "redis://a" }), "keeps its settings to itself"],
    [
      "a sentinel",
      createSentinel({ name: "s", sentinelRootNodes: [{ host: "a", port: 1 }] }),
      "createSentinel",
    ],
    ["another object", { password: "s3cret" }, "Object"],
    ["none", [], "no client is given"],
    ["one among others", [lazy({}), undefined], "undefined"],
    ["ca", secured({ ca: PEM }), "tls.ca.*tlsCa"],
    ["cert", secured({ cert: PEM }), "tls.cert.*tlsCert"],
    ["key", secured({ key: PEM }), "tls.key.*tlsKey"],
    ["ca of node-redis", createClient({ url: "rediss://h", socket: { ca: PEM } }), "tls.ca.*tlsCa"],
    ["checkServerIdentity", secured({ checkServerIdentity: () => undefined }), "tlsServerName"],
    ["ciphers", secured({ ciphers: "s3cret" }), "tls.ciphers"],
    ["minVersion", secured({ minVersion: "TLSv1.3" }), "tls.minVersion"],
    ["another host for TLS", secured({ host: "s3cret" }), "tls.host"],
    ["keyPrefix", lazy({ keyPrefix: "s3cret:" }), "keyPrefix.*give keyPrefix"],
    ["readOnly", lazy({ readOnly: true }), "primary"],
    ["readonly", createClient({ readonly: true }), "primary"],
    ["replicas", lazy({ sentinels: [{ host: "a" }], name: "s", role: "slave" }), "primary"],
    ["natMap", lazy({ sentinels: [{ host: "a" }], name: "s", natMap: {} }), "natMap"],
    [
      "nodeAddressMap",
      createCluster({ rootNodes: [{ url: "redis://a" }], nodeAddressMap: {} }),
      "nodeAddressMap",
    ],
    [
      "sentinels by TLS alone",
      lazy({ sentinels: [{ host: "a" }], name: "s", sentinelTLS: {} }),
      "sentinelTLS",
    ],
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
      "give credentials",
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

  test("what a getter throws is the cause", () => {
    const theirs = Object.defineProperty({}, "isCluster", { get: () => assert.fail("s3cret") });
    assert.throws(() => Redlock.fromClient(theirs), refusal(["cannot be read"], ["s3cret"]));
  });

  test("an option that does not exist", () => {
    assert.throws(() => Redlock.fromClient(lazy({}), { ttl: 1 }), refusal(["ttl"]));
  });
});

test("a way out is a way out", () => {
  const named = { tlsServerName: "a.b" };
  nodesOf(lazy({ tls: { checkServerIdentity: () => undefined } }), named);
  nodesOf(
    ["a", "b"].map((host) => lazy({ host, tls: { servername: host } })),
    named,
  );
  nodesOf(lazy({ tls: { ca: PEM, rejectUnauthorized: false } }));
  nodesOf(lazy({ tls: { minVersion: "TLSv1.2", servername: "a.b" } }));
  nodesOf(createClient({ credentialsProvider: streaming }), { credentials: () => "p" });
  const client = Redlock.fromClient(lazy({ keyPrefix: "app:" }), { keyPrefix: "app:lock:" });
  assert.equal(client.lock("job").key, "app:lock:job");
});

test("a host that would lead elsewhere, and take the password along, is refused", () => {
  for (const host of ["evil@other", "one/2", "one,two", "a b"]) {
    const client = { isCluster: false, options: { host, password: "s3cret" } };
    assert.throws(
      () => Redlock.fromClient(client),
      (error) =>
        error.code === "invalid" && /host is/.test(error.message) && !/s3cret/.test(error.message),
    );
  }
});
