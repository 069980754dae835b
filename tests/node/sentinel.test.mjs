// Clients of other libraries that use Sentinel.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Redis from "ioredis";
import Redis5 from "ioredis-5";
import { Redlock } from "redlock-native";
import { freePort, PROGRAM, Server, uniqueName } from "./helper.mjs";
import { after, before, test } from "./testing.mjs";

let primary;
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
  primary = await Server.start();
  sentinel = await startSentinel(primary.port);
});
after(() => Promise.all([primary, sentinel].map((server) => server?.stop())));

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
