// Compares a read/write lock, of which 95 % of the callers are readers, with a lock for all of them: holds per second, and the
// time for one. `make bench-readers` runs it over one temporary server, or over three, and prints Markdown.

import { setTimeout as sleep } from "node:timers/promises";
import { Redlock } from "../bindings-node/index.mjs";
import { startServer } from "./server.mjs";

const SECONDS = Number(process.argv[2] ?? 1);
const ROUNDS = 3;
const CALLERS = 64;
/** One hold of this many is for writing. */
const WRITES_EACH = 20;
/** How long each hold lasts, in ms. */
const LENGTHS = [0, 1];

/** Each form returns a function that holds the lock once. */
const FORMS = {
  "read/write lock": (client, length) => {
    const { read, write } = { read: client.rwlock("data").read(), write: client.rwlock("data").write() };
    return (isWrite) => (isWrite ? write : read).using(() => (length ? sleep(length) : undefined));
  },
  lock: (client, length) => {
    const lock = client.lock("data");
    return () => lock.using(() => (length ? sleep(length) : undefined));
  },
};

async function measure(servers, form, length) {
  const urls = servers.map(({ port }) => `redis://127.0.0.1:${port}`);
  // Two clients, so that not every caller waits in one line.
  const clients = [1, 2].map(() => new Redlock(urls, { restartGuard: 0 }));
  const holds = clients.map((client) => FORMS[form](client, length));
  const times = { read: [], write: [] };
  const run = async (seconds) => {
    const until = performance.now() + seconds * 1000;
    const caller = async (number) => {
      for (let [at, turn] = [performance.now(), number]; at < until; turn += 1) {
        const isWrite = turn % WRITES_EACH === 0;
        await holds[number % 2](isWrite);
        const next = performance.now();
        times[isWrite ? "write" : "read"].push(next - at);
        at = next;
      }
    };
    await Promise.all(Array.from({ length: CALLERS }, (_, number) => caller(number)));
  };
  await run(0.3);
  for (const one of Object.values(times)) one.length = 0;
  const begun = performance.now();
  await run(SECONDS);
  const lasted = (performance.now() - begun) / 1000;
  await Promise.all(clients.map((client) => client.shutdown()));
  const p99 = (values) => values.sort((one, other) => one - other)[Math.floor(values.length * 0.99)];
  const count = times.read.length + times.write.length;
  return { rate: count / lasted, read: p99(times.read), write: p99(times.write) };
}

const median = (values) => values.sort((one, other) => one - other)[values.length >> 1];

console.log("| servers, length of a hold | form | holds/s | p99 of a read, ms | p99 of a write, ms |");
console.log("|---|---|---|---|---|");
for (const count of [1, 3]) {
  const servers = await Promise.all(Array.from({ length: count }, startServer));
  for (const length of LENGTHS) {
    const found = Object.fromEntries(Object.keys(FORMS).map((form) => [form, []]));
    for (let round = 0; round < ROUNDS; round += 1) {
      for (const form of Object.keys(FORMS)) found[form].push(await measure(servers, form, length));
    }
    for (const [form, results] of Object.entries(found)) {
      const of = (field) => median(results.map((one) => one[field]));
      const numbers = [of("rate").toFixed(0), of("read").toFixed(1), of("write").toFixed(1)];
      console.log(`| ${count}, ${length} ms | ${form} | ${numbers.join(" | ")} |`);
    }
  }
  await Promise.all(servers.map(({ stop }) => stop()));
}
process.exit(0);
