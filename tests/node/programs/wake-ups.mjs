// Acquires and releases a lock repeatedly, and prints how often the background thread woke up meanwhile. The arguments
// are the URL of the node and the number of uses.
import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { Redlock } from "redlock-native";

const [node, uses] = [process.argv[2], Number(process.argv[3])];
const client = new Redlock(node);
const lock = client.lock("counted", { ttl: 20_000 });

/** Returns how often the background thread, which is named "redlock", went to sleep so far. */
function sleeps() {
  for (const task of readdirSync("/proc/self/task")) {
    const folder = `/proc/self/task/${task}`;
    if (readFileSync(`${folder}/comm`, "utf8").trim() !== "redlock") continue;
    return Number(
      /^voluntary_ctxt_switches:\s*(\d+)$/m.exec(readFileSync(`${folder}/status`, "utf8"))[1],
    );
  }
  throw new Error("no such thread");
}

async function use(times) {
  for (let turn = 0; turn < times; turn += 1) await (await lock.acquire()).release();
}

await use(100);
await sleep(1000);
const before = sleeps();
await use(uses);
console.log(sleeps() - before);
