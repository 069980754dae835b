// Servers that are replicas for a while, behind the address of their client.
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { Redlock } from "redlock-native";
import { freePort, Server, uniqueName } from "./helper.mjs";
import { slow } from "./testing.mjs";

/** The maximum number of connections that a client opens meanwhile. */
const MAX_CONNECTIONS = 20;

/** The numbers of connections and commands so far, with those of this request. */
async function received(server) {
  const stats = await server.cli("INFO", "stats");
  const field = (name) => Number(new RegExp(`${name}:(\\d+)`).exec(stats)[1]);
  return [field("total_connections_received"), field("total_commands_processed")];
}

for (const count of [1, 8, 100]) {
  slow(
    "what a client sends in five seconds is counted",
    `a demoted server gets few connections from ${count} waiting callers`,
    async () => {
      const server = await Server.start();
      const redlock = new Redlock(server.url);
      try {
        await redlock.using(uniqueName(), () => undefined);
        const port = await freePort();
        const before = await received(server);
        await server.cli("REPLICAOF", "127.0.0.1", port);
        const names = Array.from({ length: count }, () => uniqueName());
        const calls = names.map((name) => redlock.lock(name, { wait: 60_000 }).acquire());
        await sleep(5000);
        const after = await received(server);
        await server.cli("REPLICAOF", "NO", "ONE");
        const promoted = performance.now();
        const leases = await Promise.all(calls);
        const took = performance.now() - promoted;
        await Promise.all(leases.map((lease) => lease.release()));
        // The requests of this test open a connection each.
        const connections = after[0] - before[0] - 2;
        assert.ok(connections <= MAX_CONNECTIONS, `${connections} connections`);
        // Each caller sends a vote and a delete over the connection that ends.
        const commands = after[1] - before[1];
        assert.ok(commands <= 3 * MAX_CONNECTIONS + 6 * count, `${commands} commands`);
        assert.ok(took < 1000, `${took} ms`);
      } finally {
        redlock.close();
        await server.stop();
      }
    },
  );
}
