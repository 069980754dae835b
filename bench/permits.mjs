// Compares semaphores with those of redis-semaphore: acquires per second, commands for each, and the server's time for the
// scripts. `make bench-semaphores` runs it over one temporary server, or over three, and prints Markdown.

import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import { RedlockSemaphore, Semaphore } from "redis-semaphore";
import { Redlock } from "../bindings-node/index.mjs";
import { startServer } from "./server.mjs";

const SECONDS = Number(process.argv[2] ?? 1);
const ROUNDS = 3;
const TTL = 10_000;

/** The calls of commands so far, and the server's time for scripts. */
async function counted(servers) {
  let [calls, scripts, microseconds] = [0, 0, 0];
  for (const { client } of servers) {
    for (const line of (await client.info("commandstats")).split("\r\n")) {
      const found = /^cmdstat_(.*?):calls=(\d+),usec=(\d+)/.exec(line);
      if (!found || found[1] === "info") continue;
      const isScript = found[1].startsWith("eval");
      calls += Number(found[2]);
      if (isScript) [scripts, microseconds] = [scripts + Number(found[2]), microseconds + Number(found[3])];
    }
  }
  return { calls, scripts, microseconds };
}

/** Each library returns a function that holds a permit once. */
const LIBRARIES = {
  redlock: (servers, limit) => {
    const urls = servers.map(({ port }) => `redis://127.0.0.1:${port}`);
    const client = new Redlock(urls, { restartGuard: 0 });
    const pool = client.semaphore("pool", { limit, ttl: TTL });
    const hold = async () => (await pool.acquire()).release();
    return { hold, end: () => client.shutdown() };
  },
  "redis-semaphore": (servers, limit) => {
    const clients = servers.map(({ port }) => new Redis(port, "127.0.0.1"));
    const options = { lockTimeout: TTL, acquireTimeout: 60_000, refreshInterval: 0 };
    const make = () =>
      clients.length === 1
        ? new Semaphore(clients[0], "pool", limit, options)
        : new RedlockSemaphore(clients, "pool", limit, options);
    const hold = async () => {
      const semaphore = make();
      await semaphore.acquire();
      await semaphore.release();
    };
    return { hold, end: () => clients.forEach((client) => client.disconnect()) };
  },
};

async function measure(servers, library, limit, callers) {
  const { hold, end } = LIBRARIES[library](servers, limit);
  const run = async (seconds) => {
    const waits = [];
    const until = performance.now() + seconds * 1000;
    const caller = async () => {
      for (let at = performance.now(); at < until; ) {
        await hold();
        const next = performance.now();
        waits.push(next - at);
        at = next;
      }
    };
    await Promise.all(Array.from({ length: callers }, caller));
    return waits.sort((one, other) => one - other);
  };
  await run(0.3);
  const [before, begun] = [await counted(servers), performance.now()];
  const waits = await run(SECONDS);
  const lasted = (performance.now() - begun) / 1000;
  const after = await counted(servers);
  await end();
  await sleep(50);
  return {
    rate: waits.length / lasted,
    p99: waits[Math.floor(waits.length * 0.99)],
    commands: (after.calls - before.calls) / waits.length,
    script: (after.microseconds - before.microseconds) / (after.scripts - before.scripts),
  };
}

const median = (values) => values.sort((one, other) => one - other)[values.length >> 1];

async function table(count, cases) {
  const servers = await Promise.all(Array.from({ length: count }, startServer));
  console.log(`\n${count === 1 ? "One server" : `${count} servers`}:\n`);
  console.log("| permits, callers | library | holds/s | p99, ms | commands/hold | µs/script |");
  console.log("|---|---|---|---|---|---|");
  for (const [limit, callers] of cases) {
    const results = { redlock: [], "redis-semaphore": [] };
    for (let round = 0; round < ROUNDS; round += 1) {
      for (const [library, found] of Object.entries(results)) {
        found.push(await measure(servers, library, limit, callers));
      }
    }
    for (const [library, found] of Object.entries(results)) {
      const of = (field) => median(found.map((one) => one[field]));
      const numbers = [of("rate").toFixed(0), of("p99").toFixed(2)];
      numbers.push(of("commands").toFixed(1), of("script").toFixed(1));
      console.log(`| ${limit}, ${callers} | ${library} | ${numbers.join(" | ")} |`);
    }
  }
  await Promise.all(servers.map(({ stop }) => stop()));
}

await table(1, [[1, 1], [5, 1], [50, 1], [1, 64], [5, 64], [50, 64]]);
await table(3, [[5, 1], [5, 64]]);
process.exit(0);
