// A candidate of an election in Node.js, with a line for the begin and the end of each term. README.md describes them.
// candidate.mjs run NODES NAME TTL_MS
import { setTimeout as sleep } from "node:timers/promises";
import { Redlock } from "redlock-native";

const [, nodes, name, ttl] = process.argv.slice(2);
const offset = BigInt(process.env.BOOTTIME_OFFSET_NS ?? 0);
const now = () => Number(process.hrtime.bigint() + offset);
const say = (sign, fields = {}) =>
  process.stdout.write(`${JSON.stringify({ sign, at: now(), ...fields })}\n`);

const client = new Redlock(nodes.split(","), { restartGuard: 0 });
const leader = client.leader(name, { ttl: Number(ttl), fencing: true, label: "run" });
say("campaigns");
await leader.run(async (lease) => {
  let last = now();
  say("leads", { fence: lease.fencingToken });
  try {
    for (;;) {
      const asked = now();
      if (lease.held) last = asked;
      await sleep(5, undefined, { signal: lease.signal });
    }
  } finally {
    say("ended", { last });
  }
});
