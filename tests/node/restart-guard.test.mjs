// Nodes that restart, and the warnings about nodes, over five real servers.
import assert from "node:assert/strict";
import { Redlock } from "redlock-native";
import { eventually, Server, uniqueName } from "./helper.mjs";
import { after, before, test } from "./testing.mjs";

let five = [];
const warnings = [];
process.on("warning", (warning) => warnings.push(warning.message));
const said = (...words) => warnings.some((text) => words.every((word) => text.includes(word)));

before(async () => {
  five = await Promise.all(Array.from({ length: 5 }, () => Server.start()));
});
after(() => Promise.all(five.map((server) => server.stop())));

test("a restarted node reports when it votes again", async () => {
  const urls = five.map((server) => server.url);
  const redlock = new Redlock(urls, { restartGuard: 600_000 });
  const lock = redlock.lock(uniqueName(), { ttl: 5000, wait: 0 });
  await assert.rejects(lock.acquire(), ({ name, message, nodes }) => {
    assert.equal(name, "QuorumUnavailable");
    assert.match(message, /grants new leases in \d+\.\d s/);
    assert.ok(nodes.filter((node) => /grants new leases in/.test(node.error)).length >= 3, message);
    return true;
  });
  for (const node of (await lock.inspect()).nodes) {
    assert.equal(node.state, "free");
    assert.match(node.error, /grants new leases in/);
  }
  await eventually(() =>
    assert.ok(
      five.every((server) => said(server.shown, "grants new leases in")),
      warnings,
    ),
  );
  const tooLong = { name: "InvalidOption", message: /restart_?guard/i };
  await assert.rejects(async () => redlock.lock(uniqueName(), { ttl: 601_000 }).acquire(), tooLong);
  redlock.close();
});

test("one server listed twice is not a quorum", async () => {
  const twice = [five[0].url, `${five[0].url}/1`];
  const lock = new Redlock(twice, { restartGuard: 0 }).lock(uniqueName(), { wait: 20_000 });
  await assert.rejects(lock.acquire(), { name: "InvalidOption", message: /same server/ });
  // With a third URL there is a quorum without the second one. A warning is logged.
  warnings.length = 0;
  const redlock = new Redlock([...twice, five[1].url], { restartGuard: 0 });
  await redlock.using(uniqueName(), () => undefined);
  await eventually(() => assert.ok(said("same server"), warnings));
  redlock.close();
});

test("a server that may evict keys causes a warning", async () => {
  const [server] = five;
  await server.cli("CONFIG", "SET", "maxmemory-policy", "allkeys-lru");
  const redlock = new Redlock(server.url);
  await redlock.using(uniqueName(), () => undefined);
  await eventually(() => assert.ok(said(server.shown, "allkeys-lru", "noeviction"), warnings));
  redlock.close();
});
