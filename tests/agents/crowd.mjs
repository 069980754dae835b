// Many callers in one process that each acquire the same name once. Prints a line for each hold. README.md describes
// the lines. crowd.mjs promises NODES NAME CALLERS TTL_MS [PERMITS]
import { setTimeout as sleep } from "node:timers/promises";
import { Redlock } from "redlock-native";

const HOLD_MS = 2;
const [, nodes, name, callers, ttl, permits] = process.argv.slice(2);
const offset = BigInt(process.env.BOOTTIME_OFFSET_NS ?? 0);
const now = () => Number(process.hrtime.bigint() + offset);
const say = (fields) => process.stdout.write(`${JSON.stringify(fields)}\n`);

const client = new Redlock(nodes.split(","), { restartGuard: 0 });
const lock = permits
  ? client.semaphore(name, { limit: Number(permits), ttl: Number(ttl) })
  : client.lock(name, { ttl: Number(ttl) });
let waiting = Number(callers);

async function call() {
  const hold = await lock.using(async (lease) => {
    waiting -= 1;
    const at = now();
    await sleep(HOLD_MS);
    lease.ensureHeld();
    return { at, until: now() };
  });
  say(hold);
}

const calls = Array.from({ length: waiting }, call);
await sleep(100);
say({ waiting });
await Promise.all(calls);
