// The time that a server takes for the scripts of each kind of lock: to acquire, to refuse, to extend and to release. One caller, one
// temporary server. `make bench-scripts` runs it and prints Markdown.

import { Redlock } from "../bindings-node/index.mjs";
import { startServer } from "./server.mjs";

const COUNT = 1000;
const ROUNDS = 5;
const TTL = 60_000;

const KINDS = {
  "lock, several names": (client, at) => client.lock([`{${at}}:a`, `{${at}}:b`], { ttl: TTL }),
  "lock with fencing": (client, at) => client.lock(`${at}`, { ttl: TTL, fencing: true }),
  "semaphore of 5": (client, at) => client.semaphore(`${at}`, { limit: 5, permits: 2, ttl: TTL }),
  "semaphore of 50": (client, at) => client.semaphore(`${at}`, { limit: 50, permits: 2, ttl: TTL }),
  reader: (client, at) => client.rwlock(`${at}`).read({ ttl: TTL }),
  writer: (client, at) => client.rwlock(`${at}`).write({ ttl: TTL }),
};

/** What refuses each kind. */
const HOLDERS = {
  "semaphore of 5": (client, at) => client.semaphore(`${at}`, { limit: 5, permits: 5, ttl: TTL }),
  "semaphore of 50": (client, at) => client.semaphore(`${at}`, { limit: 50, permits: 50, ttl: TTL }),
  reader: KINDS.writer,
  writer: KINDS.reader,
};

/** The server's time for the scripts that `work` calls, in µs for each call, or nothing without a call. */
async function perScript(server, work) {
  await server.client.config("RESETSTAT");
  await work();
  let [calls, microseconds] = [0, 0];
  for (const line of (await server.client.info("commandstats")).split("\r\n")) {
    const found = /^cmdstat_eval(?:sha)?:calls=(\d+),usec=(\d+)/.exec(line);
    if (found) [calls, microseconds] = [calls + Number(found[1]), microseconds + Number(found[2])];
  }
  return calls < COUNT / 2 ? undefined : microseconds / calls;
}

async function measure(server, kind) {
  const client = new Redlock(`redis://127.0.0.1:${server.port}`, { restartGuard: 0 });
  const make = KINDS[kind];
  const other = HOLDERS[kind] ?? make;
  const leases = [];
  // The connection is open, and the scripts are loaded.
  await (await make(client, 0).acquire()).release();
  const found = {};
  found.acquire = await perScript(server, async () => {
    for (let at = 0; at < COUNT; at += 1) leases.push(await make(client, at).acquire());
  });
  found.extend = await perScript(server, async () => {
    for (const lease of leases) await lease.extend(TTL * 2);
  });
  found.release = await perScript(server, async () => {
    for (const lease of leases) await lease.release();
  });
  const holding = [];
  for (let at = 0; at < COUNT; at += 1) holding.push(await other(client, at).acquire());
  found.refuse = await perScript(server, async () => {
    for (let at = 0; at < COUNT; at += 1) {
      if (await make(client, at).tryAcquire()) throw new Error("it was not refused");
    }
  });
  for (const lease of holding) await lease.release();
  await client.shutdown();
  return found;
}

const median = (values) => values.sort((one, other) => one - other)[values.length >> 1];
const WHAT = ["acquire", "refuse", "extend", "release"];

const server = await startServer();
console.log(`| kind | ${WHAT.map((what) => `${what}, µs`).join(" | ")} |`);
console.log(`|---|${WHAT.map(() => "---").join("|")}|`);
for (const kind of Object.keys(KINDS)) {
  const rounds = [];
  for (let round = 0; round < ROUNDS; round += 1) rounds.push(await measure(server, kind));
  const cells = WHAT.map((what) => {
    const values = rounds.map((round) => round[what]);
    return values.includes(undefined) ? "no script" : median(values).toFixed(1);
  });
  console.log(`| ${kind} | ${cells.join(" | ")} |`);
}
await server.stop();
process.exit(0);
