// 64 callers on 64 names: tasks.mjs PORT SECONDS redlock|node-redlock prints pairs per second.
const TASKS = 64;
const [port, seconds, library] = process.argv.slice(2);

async function redlockPairs() {
  const { Redlock } = await import("../bindings-node/index.mjs");
  const client = new Redlock([`redis://127.0.0.1:${port}`]);
  return (task) => {
    const lock = client.lock(`bench-${task}`, { ttl: 10_000 });
    return async () => (await lock.acquire()).release();
  };
}

async function nodeRedlockPairs() {
  const { Redis } = await import("ioredis");
  const { default: Redlock } = await import("redlock");
  const client = new Redlock([new Redis(Number(port))]);
  return (task) => async () => (await client.acquire([`bench-${task}`], 10_000)).release();
}

const of = await (library === "redlock" ? redlockPairs() : nodeRedlockPairs());
const pairs = Array.from({ length: TASKS }, (_, task) => of(task));
await Promise.all(pairs.map((pair) => pair())); // connects

let done = 0;
const begin = performance.now();
const end = begin + Number(seconds) * 1000;
await Promise.all(
  pairs.map(async (pair) => {
    while (performance.now() < end) {
      await pair();
      done++;
    }
  }),
);
console.log((done / ((performance.now() - begin) / 1000)).toFixed(0));
process.exit(0);
