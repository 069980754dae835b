// Errors of other lock libraries that no other file here tests. docs/contributing/faults.md has the list.
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { Redlock } from "redlock-native";
import { Server, serverForSuite, uniqueName } from "./helper.mjs";
import { slow } from "./testing.mjs";

const shared = serverForSuite();

slow("the server is frozen for real time", "a missed renewal is retried", async () => {
  const server = await Server.start();
  try {
    const redlock = new Redlock(server.url);
    const lease = await redlock.lock(uniqueName(), { ttl: 2000 }).acquire();
    await sleep(300);
    server.process.kill("SIGSTOP");
    await sleep(800);
    server.process.kill("SIGCONT");
    await sleep(2000);
    assert.equal(lease.held, true);
    await lease.release();
    redlock.close();
  } finally {
    await server.stop();
  }
});

slow("it counts commands over real time", "renewal sends a few commands per ttl", async () => {
  const { server } = shared;
  const asked = async () => {
    const stats = await server.cli("INFO", "commandstats");
    return Number(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1] ?? 0);
  };
  for (const ttl of [300, 1250]) {
    const lease = await new Redlock(server.url).lock(uniqueName(), { ttl }).acquire();
    const before = await asked();
    await sleep(2 * ttl);
    assert.ok((await asked()) - before <= 12);
    assert.equal(lease.held, true);
    await lease.release();
  }
});
