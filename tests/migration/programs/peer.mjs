// A holder with a Node.js lock library that reads one command per line on stdin and writes one reply per line on
// stdout. See ../README.md.
import { createInterface } from "node:readline";
import Redis from "ioredis";

const [library, urls] = process.argv.slice(2);
const theirs = await import(library);
const PAUSE = 100;
const clients = urls.split(",").map((url) => new Redis(url));
/** Releases the last acquired lock. */
let release;

/** node-redlock 4 and 5. */
async function redlock(name, ttl, retryCount) {
  const settings = { retryCount: 0, retryDelay: PAUSE, retryJitter: 0 };
  const redlock = new theirs.default(clients, { ...settings, retryCount });
  const names = library === "redlock-4" ? name : [name];
  const held = await redlock.acquire(names, ttl);
  // Releases are not retried, because each retry for a lock that no longer exists would fail.
  held.redlock = new theirs.default(clients, settings);
  release = () => (library === "redlock-4" ? held.unlock() : held.release());
}

/** redis-semaphore, which has another class for several servers. */
async function semaphore(name, lockTimeout, retries) {
  const options = {
    lockTimeout,
    retryInterval: PAUSE,
    acquireAttemptsLimit: retries + 1,
    refreshInterval: 0,
  };
  const [one] = clients;
  const mutex =
    clients.length === 1
      ? new theirs.Mutex(one, name, options)
      : new theirs.RedlockMutex(clients, name, options);
  if (!(await mutex.tryAcquire())) throw new Error("held");
  release = () => mutex.release();
}

/** redlock-universal, likewise. */
async function universal(key, ttl, retryAttempts) {
  const adapters = clients.map((client) => new theirs.IoredisAdapter(client));
  const options = { key, ttl, retryAttempts, retryDelay: PAUSE };
  const lock =
    adapters.length === 1
      ? theirs.createLock({ ...options, adapter: adapters[0] })
      : theirs.createRedlock({ ...options, adapters });
  const handle = await lock.acquire();
  release = async () => {
    if (!(await lock.release(handle))) throw new Error("not held any more");
  };
}

const acquires = { "redis-semaphore": semaphore, "redlock-universal": universal };
const commands = {
  acquire: (name, ttl, wait) =>
    (acquires[library] ?? redlock)(name, Number(ttl), Math.ceil(Number(wait) / PAUSE)),
  release: () => release(),
};

console.log("ready");
for await (const line of createInterface({ input: process.stdin })) {
  const [verb, ...words] = line.split(" ");
  console.log(
    await commands[verb](...words).then(
      () => "yes",
      (error) => `no ${error.name}: ${error.message}`,
    ),
  );
}
process.exit(0);
