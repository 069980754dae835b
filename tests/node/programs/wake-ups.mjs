// Makes pairs and prints how often the background thread was woken meanwhile. The arguments are the node and the number
// of pairs.
import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { Redlock } from "redlock-native";

const [node, pairs] = [process.argv[2], Number(process.argv[3])];
const client = new Redlock(node);
const lock = client.lock("counted", { ttl: 20_000 });

function switches() {
  for (const task of readdirSync("/proc/self/task")) {
    const of = `/proc/self/task/${task}`;
    if (readFileSync(`${of}/comm`, "utf8").trim() !== "redlock") continue;
    return Number(
      /^voluntary_ctxt_switches:\s*(\d+)$/m.exec(readFileSync(`${of}/status`, "utf8"))[1],
    );
  }
  throw new Error("no such thread");
}

async function use(times) {
  for (let turn = 0; turn < times; turn += 1) await (await lock.acquire()).release();
}

await use(100);
await sleep(1000);
const before = switches();
await use(pairs);
console.log(switches() - before);
