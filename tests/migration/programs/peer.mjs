// A holder that uses node-redlock: one command a line on stdin, one answer a line on stdout. See ../README.md.
import { createInterface } from "node:readline";
import Redis from "ioredis";

const [library, urls] = process.argv.slice(2);
const { default: Redlock } = await import(library);
const PAUSE = 100;
const settings = { retryCount: 0, retryDelay: PAUSE, retryJitter: 0 };
const clients = urls.split(",").map((url) => new Redis(url));
let held;

const commands = {
  acquire: async (name, ttl, wait) => {
    const retryCount = Math.ceil(Number(wait) / PAUSE);
    const redlock = new Redlock(clients, { ...settings, retryCount });
    const names = library === "redlock-4" ? name : [name];
    held = await redlock.acquire(names, Number(ttl));
    // Releases are not tried again: of a lock that is gone, each would fail.
    held.redlock = new Redlock(clients, settings);
  },
  release: () => (library === "redlock-4" ? held.unlock() : held.release()),
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
