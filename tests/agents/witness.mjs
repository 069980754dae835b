// One lease in Node.js, with a line for each way in which its holder learns of the loss. README.md describes the lines.
// witness.mjs using NODES NAME TTL_MS PACE_MS
import { setTimeout as sleep, setImmediate as turn } from "node:timers/promises";
import { LockLost, Redlock } from "redlock-native";

const [, nodes, name, ttl, pause] = process.argv.slice(2);
const offset = BigInt(process.env.BOOTTIME_OFFSET_NS ?? 0);
const now = () => Number(process.hrtime.bigint() + offset);
const say = (sign, fields = {}) =>
  process.stdout.write(`${JSON.stringify({ sign, at: now(), ...fields })}\n`);

process.removeAllListeners("warning");
process.on("warning", ({ message }) => {
  if (message.includes(`lock:${name}`)) say("logged", { text: message });
});

const client = new Redlock(nodes.split(","), { restartGuard: 0 });
try {
  await client.lock(name, { ttl: Number(ttl) }).using(async (lease) => {
    lease.onLost((error) => say("on_lost", { reason: error.reason }));
    lease.signal.addEventListener("abort", () => {
      const { reason } = lease.signal;
      say("signal", { reason: reason instanceof LockLost ? reason.reason : String(reason) });
    });
    say("holds", { token: lease.token });
    let last = 0;
    for (;;) {
      const asked = now();
      if (!lease.held) break;
      last = asked;
      await (Number(pause) ? sleep(Number(pause)) : turn());
    }
    say("last_held", { at: last });
    await sleep(20); // the notification arrives between two turns of the loop
  });
} catch (error) {
  if (!(error instanceof LockLost)) throw error;
  say("raised", { reason: error.reason, held: client.leases().length > 0 });
}
await sleep(100); // a second notification or warning would arrive by now
