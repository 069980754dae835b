// A lock holder in Node.js that reads one JSON command per line on stdin and writes one JSON reply per line on stdout.
// README.md describes the protocol.
import { once } from "node:events";
import { createInterface } from "node:readline";
import { LockError, Redlock } from "redlock-native";

const [nodes, restartGuard] = process.argv.slice(2);
const client = new Redlock(nodes.split(" "), {
  restartGuard: Number(restartGuard ?? 0),
  minReplicas: Number(process.env.MIN_REPLICAS ?? 0),
  // A failover on a busy machine may take longer than the default.
  unavailableAfter: null,
});
let lease;

// The clock of Node.js does not count suspend. Its offset to the clock that does is constant while the machine is not
// suspended.
const offset = BigInt(process.env.BOOTTIME_OFFSET_NS ?? 0);
const now = () => Number(process.hrtime.bigint() + offset);

const lockOf = ({ name, ttl_ms, fencing, min_hold_ms, limit, permits, side }) => {
  const options = { ttl: ttl_ms, minHold: min_hold_ms };
  if (side === "read") return client.rwlock(name).read({ ttl: ttl_ms });
  if (side === "write") return client.rwlock(name).write({ ...options, fencing });
  if (limit === undefined) return client.lock(name, { ...options, fencing });
  return client.semaphore(name, { ...options, limit, permits });
};

const keep = (acquired, { fencing }) => {
  const at = now();
  lease = acquired;
  const { token, remaining, keys } = lease;
  const reply = { at, token, remaining_ms: remaining, keys };
  return fencing ? { ...reply, fencing_token: lease.fencingToken } : reply;
};

const commands = {
  acquire: async (command) =>
    keep(
      await lockOf(command).acquire({ wait: command.wait_ms ?? Number.POSITIVE_INFINITY }),
      command,
    ),
  try: async (command) => {
    const acquired = await lockOf(command).tryAcquire();
    return acquired
      ? keep(acquired, command)
      : { ok: false, code: "held", message: "held by another" };
  },
  attach: async (command) => keep(await lockOf(command).attach(command.token), {}),
  extend: async ({ ttl_ms }) => {
    await lease.extend(ttl_ms);
    return { remaining_ms: lease.remaining };
  },
  release: async () => {
    await lease.release();
    return {};
  },
  detach: async () => ({ held: lease.detach() }),
  held: async () => ({ held: lease.held, remaining_ms: lease.remaining }),
  inspect: async (command) => {
    const { held, mode, taken, limit } = await lockOf(command).inspect();
    return { held, mode: mode ?? null, taken, limit };
  },
  force_release: async (command) => ({ deleted: await client.forceRelease(lockOf(command)) }),
  lost: async ({ timeout_ms }) => {
    const { signal } = lease;
    const over = AbortSignal.timeout(timeout_ms);
    if (!signal.aborted) await once(AbortSignal.any([signal, over]), "abort");
    const at = now();
    if (!signal.aborted) return { ok: false, code: "timeout", message: "not lost" };
    if (lease.held) throw new Error("told of a loss while it is held");
    return { at, reason: signal.reason.reason };
  },
};

const run = async (command) => {
  try {
    const reply = await commands[command.do](command);
    return { ok: true, at: now(), ...reply };
  } catch (error) {
    if (!(error instanceof LockError)) throw error;
    // Other languages name the nodes in their messages.
    const nodes = error.nodes.map(({ url, error, state }) => `; ${url}: ${error ?? state}`);
    return { ok: false, at: now(), code: error.kind, message: error.message + nodes.join("") };
  }
};

const say = (reply) => process.stdout.write(`${JSON.stringify(reply)}\n`);

say({ ready: true, pid: process.pid });
for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  if (command.do === "quit") break;
  say(await run(command));
}
process.exit(0);
