// The work of each program of the kill test under a lock: it reports to the witness the time during which it certainly
// held the lock.
import { once } from "node:events";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { Redlock } from "redlock-native";

export const TTL = 2_000;
/** A call that takes longer than this ends its process with a message. */
const CALL_LIMIT_MS = 30_000;
const redlock = new Redlock(process.env.REDIS_URL);
const witness = connect(Number(process.env.WITNESS), "127.0.0.1");
await once(witness, "connect");
const say = (...words) => witness.write(`${words.join(" ")}\n`);
/** Microseconds of a clock that all processes of this machine share. */
const now = () => Number(process.hrtime.bigint() / 1_000n);

say("hello", process.pid, process.env.KIND);
witness.on("error", () => process.exit(1));
// Only the test has it open. Without the test, nothing watches the holders.
witness.on("close", () => process.exit(1));

async function body(name, lease, work) {
  const end = performance.now() + work;
  // Read before the check, so a lock that is held afterwards was held then.
  let moment = now();
  if (lease.held) say("in", name, lease.token, moment);
  while (performance.now() < end) {
    await sleep(5);
    moment = now();
    if (!lease.held) break;
    say("at", name, lease.token, moment);
  }
  // A real program would stop its work here.
  if (!lease.held) say("lost", name, lease.token);
}

/** One hold, mostly short, sometimes longer than a TTL. */
export async function hold(name) {
  const watchdog = setTimeout(() => {
    say("hang", name, process.pid);
  }, CALL_LIMIT_MS);
  const work = Math.random() < 0.05 ? 1.5 * TTL : Math.random() * 150;
  try {
    await redlock.using(name, { ttl: TTL, wait: 10_000 }, (lease) => body(name, lease, work));
    say("done", name);
  } catch (error) {
    if (error.kind === "closed") return;
    if (!["timeout", "lost", "unavailable"].includes(error.kind))
      say("error", error.kind, error.message);
    else say(error.kind, name);
  } finally {
    clearTimeout(watchdog);
  }
}

export async function shutdown() {
  await redlock.shutdown(5_000);
  witness.removeAllListeners("close");
  witness.end();
}
