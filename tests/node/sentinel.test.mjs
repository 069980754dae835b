// A service under Sentinel with only its URL. The client finds it and follows it to its next primary.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Redis from "ioredis";
import Redis5 from "ioredis-5";
import { Redlock } from "redlock-native";
import { eventually, freePort, PROGRAM, Server, uniqueName } from "./helper.mjs";
import { after, before, test } from "./testing.mjs";

let primary;
let replica;
let sentinel;

/** One sentinel, which decides alone. */
async function startSentinel(watched) {
  const folder = await mkdtemp(join(tmpdir(), "redlock-test-"));
  const port = await freePort();
  const file = join(folder, "sentinel.conf");
  const lines = [
    `port ${port}`,
    "bind 127.0.0.1",
    `sentinel monitor service 127.0.0.1 ${watched} 1`,
    "sentinel down-after-milliseconds service 500",
  ];
  await writeFile(file, lines.join("\n"));
  const child = spawn(PROGRAM, [file, "--sentinel"], { stdio: "ignore" });
  const stop = async () => {
    const ended = once(child, "exit");
    child.kill("SIGKILL");
    await ended;
    await rm(folder, { recursive: true });
  };
  return { port, stop };
}

before(async () => {
  primary = await Server.start(["--repl-diskless-sync-delay", "0"]);
  replica = await Server.start(["--replicaof", "127.0.0.1", primary.port]);
  sentinel = await startSentinel(primary.port);
});
after(() => Promise.all([primary, replica, sentinel].map((server) => server?.stop())));

test("adopts ioredis and node-redis clients that use Sentinel", async () => {
  const { username, password } = new URL(primary.url);
  const login = username ? { username, password } : {};
  const sentinels = [{ host: "127.0.0.1", port: sentinel.port }];
  const group = { name: "service", sentinelRootNodes: sentinels, nodeClientOptions: login };
  for (const theirs of [
    new Redis({ sentinels, name: "service", lazyConnect: true, ...login }),
    new Redis5({ sentinels, name: "service", lazyConnect: true, ...login }),
    group,
  ]) {
    const redlock = Redlock.fromClient(theirs);
    const lease = await redlock.lock(uniqueName(), { wait: 20_000 }).acquire();
    assert.equal(await primary.cli("GET", lease.key), lease.token);
    await lease.release();
    redlock.close();
  }
});

test("follows a failover", async () => {
  const host = `127.0.0.1:${sentinel.port}`;
  const login = new URL(primary.url).username ? `${primary.url.split("//")[1].split("@")[0]}@` : "";
  const redlock = new Redlock(`redis+sentinel://${login}${host}/service`);
  const lease = await redlock.lock(uniqueName(), { ttl: 60_000, wait: 20_000 }).acquire();
  assert.equal(await primary.cli("GET", lease.key), lease.token);
  await eventually(async () => assert.equal(await replica.cli("GET", lease.key), lease.token));
  primary.process.kill("SIGSTOP");
  await eventually(async () => assert.match(await replica.cli("ROLE"), /^master/), 30_000);
  await eventually(() => lease.extend(70_000), 10_000);
  assert.ok(Number(await replica.cli("PTTL", lease.key)) > 60_000);
  await lease.release();
  assert.equal(await replica.cli("EXISTS", lease.key), "0");
  redlock.close();
});
