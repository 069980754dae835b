// The addresses that are removed from the messages of errors, and texts that are none.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { describe, test } from "./testing.mjs";

const require = createRequire(import.meta.url);
const { withoutAddresses } = require("../../bindings-node/dist/errors/addresses.js");

describe("addresses are removed from a message", () => {
  test("for any error text of a server", () => {
    const url = "rediss+sentinel://one.example:26379,two.example:26380/service/1";
    const words = [
      `it is the same server as redis://10.0.0.1:6379 (run_id abc): ask 10.0.0.2 or [::1]:6379`,
      `MOVED 7 db.internal:6380; failed to look up two.example; one.example:1 is gone`,
    ];
    for (const error of words) {
      const message = `lock:a: not available. The node failed; ${url}: ${error}`;
      const said = withoutAddresses(message, [{ url, state: "fault", error }], "lock:a");
      assert.match(said.message, /^lock:a: not available\. The node failed; node 1: (it|MOVED)/);
      assert.doesNotMatch(said.message, /\d\.\d|example|internal|::|redis/);
      assert.equal(said.nodes[0].error, error);
    }
    const path = "/var/run/redis sock";
    const unix = { url: `unix://${path}`, state: "fault", error: `${path}: no such file` };
    assert.ok(!withoutAddresses("x nodes failed; y", [unix], "lock:a").message.includes("/var"));
    const advice = "lock:a: redis://h:1: it is a cluster: use redis+cluster://host:port";
    const { message, nodes } = withoutAddresses(advice, [], "lock:a");
    assert.match(message, /^lock:a: a node cannot be used: .*use redis\+cluster:\/\/host:port$/);
    assert.equal(nodes[0].url, "redis://h:1");
    const own = "lock:a: ttl is 1: see redis://h:1: as it is";
    assert.deepEqual(withoutAddresses(own, [], "lock:a"), { message: own, nodes: [] });
  });

  test("a host name is replaced only where it is an address", () => {
    const head = "x nodes failed; node 1: ".length;
    const said = (host, error) => {
      const node = { url: `redis://${host}:1`, state: "fault", error };
      return withoutAddresses("x nodes failed; y", [node], "lock:a").message.slice(head);
    };
    const lookup =
      "cannot connect: failed to lookup address information: Name or service not known";
    for (const host of "failed connect lookup address information service node os".split(" ")) {
      assert.equal(said(host, lookup), lookup);
      for (const words of [
        `not valid for name "${host}"`,
        `'${host}' is gone`,
        `no route to ${host}; try later`,
        `sent to user@${host}`,
        `MOVED 7 ${host}:6380`,
        `see ${host}.internal, not me`,
        `${host}: gone`,
        `cannot reach ${host}`,
      ]) {
        const plain = said(host, words);
        assert.ok(
          plain.includes("(address)") && !plain.replace("(address)", "").includes(host),
          plain,
        );
      }
    }
    for (const host of ["redis-a", "r2d2", "a.b", "[::1]", "[fe80::1]", "10.0.0.1"]) {
      const bare = host.replace(/[[\]]/g, "");
      assert.equal(said(host, `is ${bare} down?`), "is (address) down?");
      assert.equal(said(host, `${host}:6379 and Z${bare}.example`), "(address) and (address)");
    }
    for (const hint of [
      "if this is a TLS port, write rediss:// instead of redis://, for servers of sentinels without TLS",
      "if it uses TLS, write rediss+sentinel://, or add sentinel_tls=true (rediss:// with TLS)",
      "unknown scheme (redis+cluster://...); use redis://; or rediss://.",
    ]) {
      assert.equal(said("redis-a", hint), hint);
    }
    for (const url of [
      "redis://x.y",
      "rediss://[::1]:7/0,",
      "unix:///a,b",
      "unix://./a",
      "unix://../a",
      "redis://;user:word@server.example",
      "redis://)word@server.example",
      "redis://.@server",
      "rediss://hostile:word@server.example/0",
      "redis://host:word@server.example",
    ]) {
      assert.equal(said("redis-a", `see ${url} there`), "see (address) there");
    }
    const script =
      "ERR value is not an integer script: f_0, on @user_script:22. user_script:7: nil";
    assert.equal(said("redis-a", script), script);
    const path = "/tmp/é😀 (a+b)/node";
    const unix = { url: `unix://${path}`, state: "fault", error: `no ${path} or unix://${path}` };
    const { message } = withoutAddresses("x nodes failed; y", [unix], "lock:a");
    assert.equal(message.slice(head), "no (address) or (address)");
  });
});
