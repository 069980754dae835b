// `ping` in Node.js: the result and mistakes. `rust/ping.rs` has the reasons of nodes.
import assert from "node:assert/strict";
import { Redlock } from "redlock-native";
import { TestRedlock } from "redlock-native/testing";
import { serverForSuite } from "./helper.mjs";
import { test } from "./testing.mjs";

const shared = serverForSuite();

test("ping reports each node", async () => {
  const urls = [shared.server.url, "redis://127.0.0.1:1"];
  const client = new Redlock(urls, { restartGuard: 0 });
  const { ready, readyIn, nodes } = await client.ping(10_000);
  assert.deepEqual([ready, readyIn], [false, undefined]);
  const [{ latency, ...one }, { error, ...two }] = nodes;
  assert.deepEqual(one, { url: urls[0], ready: true, readyIn: 0 });
  assert.ok(latency > 0 && latency < 10_000, `${latency} ms`);
  assert.deepEqual(two, { url: urls[1], ready: false });
  assert.match(error, /Connection refused/);
});

test("a ready client, and a test client that fails", async () => {
  const client = new Redlock(shared.server.url);
  assert.equal((await client.ping()).ready, true);
  const redlock = new TestRedlock();
  redlock.fail();
  assert.equal((await redlock.ping()).ready, false);
  redlock.recover();
  assert.equal((await redlock.ping()).ready, true);
  await redlock.shutdown(0);
});

test("mistakes reject", async () => {
  const client = new Redlock("memory://");
  await assert.rejects(client.ping(0), /the timeout of ping must be above 0/);
  await assert.rejects(client.ping(0.5), /timeout must be a number of milliseconds/);
  await assert.rejects(client.ping({ timeout: 5 }), /timeout must be a number of milliseconds/);
  await assert.rejects(
    client.ping(50, { signal: AbortSignal.abort() }),
    /does not accept a signal/,
  );
  client.close();
  await assert.rejects(client.ping(), { kind: "closed" });
});
