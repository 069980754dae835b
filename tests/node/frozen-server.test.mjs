// A short and a long lease side by side on one connection to a server that stalls.
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { Redlock } from "redlock-native";
import { eventually, Server, uniqueName } from "./helper.mjs";
import { slow } from "./testing.mjs";

slow(
  "a server is frozen for real time",
  "missed deadlines of a short lease do not affect a long lease",
  async () => {
    const server = await Server.start();
    try {
      const redlock = new Redlock(server.url);
      const long = await redlock.lock(uniqueName(), { ttl: 30_000 }).acquire();
      const short = await redlock.lock(uniqueName(), { ttl: 300 }).acquire();
      const told = [];
      long.onLost((error) => told.push(error));
      server.process.kill("SIGSTOP");
      await eventually(() => assert.equal(short.held, false));
      await sleep(300);
      server.process.kill("SIGCONT");
      assert.throws(() => short.ensureHeld(), { kind: "lost", reason: "expired" });
      await long.extend(30_000);
      assert.equal(long.held, true);
      assert.deepEqual(told, []);
      assert.equal(redlock.stats().reconnects, 0);
      await long.release();
      redlock.close();
    } finally {
      await server.stop();
    }
  },
);

for (const verb of ["extend", "release"]) {
  slow(
    "a server is frozen for real time",
    `${verb} on a frozen server fails in time, and close does not wait`,
    async () => {
      const server = await Server.start();
      try {
        const redlock = new Redlock(server.url);
        const lease = await redlock.lock(uniqueName(), { ttl: 5000, renew: false }).acquire();
        server.process.kill("SIGSTOP");
        const started = performance.now();
        await assert.rejects(lease[verb](), { kind: "unavailable", message: /no reply within/ });
        assert.equal(lease.held, verb === "extend");
        redlock.close();
        assert.ok(performance.now() - started < 6000);
      } finally {
        await server.stop();
      }
    },
  );
}
