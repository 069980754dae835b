// `minReplicas` and `fsync`: a vote counts only once replicas and disks have it.
import assert from "node:assert/strict";
import { Redlock } from "redlock-native";
import { eventually, refusal, Server, uniqueName } from "./helper.mjs";
import { after, before, test } from "./testing.mjs";

let primary;
let replica;

before(async () => {
  primary = await Server.start(["--repl-diskless-sync-delay", "0"]);
  replica = await Server.start(["--replicaof", "127.0.0.1", primary.port]);
  const synced = async () =>
    assert.match(await replica.cli("INFO", "replication"), /master_link_status:up/);
  await eventually(synced);
});
after(() => Promise.all([primary, replica].map((server) => server?.stop())));

test("a granted key is on the replica", async () => {
  const redlock = new Redlock(primary.url, { minReplicas: 1 });
  for (let at = 0; at < 20; at += 1) {
    const lease = await redlock.lock(uniqueName(), { ttl: 5000 }).acquire();
    assert.equal(await replica.cli("GET", lease.key), lease.token);
    await lease.extend(60_000);
    assert.ok(Number(await replica.cli("PTTL", lease.key)) > 10_000);
    await lease.release();
  }
  redlock.close();
});

test("a primary without its replica grants and renews nothing", async () => {
  const redlock = new Redlock(primary.url, { minReplicas: 1 });
  const lease = await redlock.lock(uniqueName(), { ttl: 1000 }).acquire();
  replica.process.kill("SIGSTOP");
  await eventually(() => assert.ok(lease.signal.aborted));
  assert.equal(lease.signal.reason.reason, "expired");
  const lock = redlock.lock(uniqueName(), { nodeTimeout: 1000, wait: 0 });
  const unavailable = { name: "QuorumUnavailable", message: /reached 0 of 1 replicas within/ };
  await assert.rejects(lock.acquire(), unavailable);
  await eventually(async () => assert.equal(await primary.cli("EXISTS", lock.key), "0"));
  replica.process.kill("SIGCONT");
  redlock.close();
});

test("a granted key survives a crash of the server", async () => {
  const server = await Server.start(["--appendonly", "yes", "--appendfsync", "everysec"]);
  const redlock = new Redlock(server.url, { fsync: true });
  const lock = redlock.lock(uniqueName(), { ttl: 60_000 });
  if (await server.cli("COMMAND", "INFO", "WAITAOF")) {
    const lease = await lock.acquire();
    await server.restart();
    assert.equal(await server.cli("GET", lock.key), lease.token);
  } else {
    const refused = { name: "Unsupported", message: /fsync needs WAITAOF.*Redis 7\.2/ };
    await assert.rejects(lock.acquire(), refused);
  }
  redlock.close();
  await server.stop();
});

test("values of a wrong type are rejected", () => {
  for (const [options, words] of [
    [{ minReplicas: "1" }, ["minReplicas", "whole number"]],
    [{ minReplicas: true }, ["minReplicas", "whole number"]],
    [{ minReplicas: Number.POSITIVE_INFINITY }, ["minReplicas", "whole number"]],
    [{ fsync: 1 }, ["fsync", "boolean"]],
  ])
    assert.throws(() => new Redlock("redis://127.0.0.1:1", options), refusal(words));
  const memory = refusal(["fsync is set, but memory://x has no disk"]);
  assert.throws(() => new Redlock("memory://x", { fsync: true }), memory);
});
