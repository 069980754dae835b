// A lock holder in Node.js that reads one JSON command per line on stdin and writes one JSON reply per line on stdout.
// README.md describes the protocol.
import { EventEmitter, on, once } from "node:events";
import { createInterface } from "node:readline";
import { inspect } from "node:util";
import { LockError, Redlock } from "redlock-native";
import { TestRedlock } from "redlock-native/testing";

const [nodes, restartGuard] = process.argv.slice(2);
let shared = nodes.split(" ");
const clients = new Map();
const leases = new Map();
// By lease: the candidate of a run, the function that ends its body, and what happened to it.
const [leaders, ends, events] = [new Map(), new Map(), new Map()];

// The clock of Node.js does not count suspend. Its offset to the clock that does is constant while the machine is not
// suspended.
const offset = BigInt(process.env.BOOTTIME_OFFSET_NS ?? 0);
const now = () => Number(process.hrtime.bigint() + offset);

/** The options of a lock, and those of a client. */
const OF_LOCK = ["ttl_ms", "min_hold_ms", "max_hold_ms", "node_timeout_ms", "renew", "fencing"];
OF_LOCK.push("label", "limit", "permits");
const OF_CLIENT = ["key_prefix", "label", "min_replicas", "fsync", "client_name", "tls_ca"];
OF_CLIENT.push("tls_cert", "tls_key", "tls_server_name", "tls_verify", "node_timeout_ms");
OF_CLIENT.push("connect_timeout_ms", "unavailable_after_ms", "restart_guard_ms");

/** Numbers that JSON does not have. */
const NUMBERS = new Map([
  ["nan", Number.NaN],
  ["inf", Number.POSITIVE_INFINITY],
]);
const number = (value) => NUMBERS.get(value) ?? value;

const camel = (name) => name.replace(/_(.)/g, (_, letter) => letter.toUpperCase());

/** The options that a command has, as this language spells them. */
const optionsIn = (command, names) => {
  const given = names.filter((name) => command[name] !== undefined);
  return Object.fromEntries(
    given.map((name) => [camel(name.replace(/_ms$/, "")), number(command[name])]),
  );
};

const snake = (name) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

const open = (nodes, options) => {
  if (nodes[0] === "memory://") {
    const client = new TestRedlock(options);
    // Further clients use the same node.
    shared = client.nodes;
    return client;
  }
  return new Redlock(nodes, {
    restartGuard: Number(restartGuard ?? 0),
    minReplicas: Number(process.env.MIN_REPLICAS ?? 0),
    // A failover on a busy machine may take longer than the default.
    unavailableAfter: null,
    ...options,
  });
};

const clientOf = ({ client = "one" }) => {
  if (!clients.has(client)) clients.set(client, open(shared, {}));
  return clients.get(client);
};

const lockOf = (command) => {
  const { name, limit, side } = command;
  const [client, options] = [clientOf(command), optionsIn(command, OF_LOCK)];
  if (side) return client.rwlock(name)[side](options);
  return limit === undefined ? client.lock(name, options) : client.semaphore(name, options);
};

const leaseOf = ({ lease = "lease" }) => leases.get(lease);

const line = (object) => inspect(object, { breakLength: Number.POSITIVE_INFINITY });

const state = (lease) => {
  const { held, remaining, ttl } = lease;
  const fields = { held, remaining_ms: remaining, ttl_ms: ttl, shown: line(lease) };
  try {
    return { ...fields, fencing_token: lease.fencingToken };
  } catch {
    return fields;
  }
};

const keep = (acquired, { lease = "lease" }) => {
  const at = now();
  leases.set(lease, acquired);
  return { at, token: acquired.token, keys: acquired.keys, ...state(acquired) };
};

const leaderOf = (command) => {
  const options = optionsIn(command, ["ttl_ms", "max_hold_ms", "label", "fencing"]);
  return clientOf(command).leader(command.name, options);
};

const nextEvent = async ({ lease }) => (await events.get(lease).next()).value[0];

/** Runs a body that waits for `end`, and returns what happens first. */
const start = (command, runner) => {
  const happened = new EventEmitter();
  events.set(command.lease, on(happened, "event"));
  const body = async (lease) => {
    const how = await new Promise((end) => {
      lease.onLost(() => end("returns"));
      ends.set(command.lease, end);
      happened.emit("event", { begun: true, ...keep(lease, command) });
    });
    if (how === "fails") clientOf(command).lock("");
  };
  const ran = async () => {
    const result = await runner.run(body);
    return { begun: false, ran: result?.ran ?? true };
  };
  replyOf(ran).then((reply) => happened.emit("event", reply));
  return nextEvent(command);
};

const commands = {
  client: async ({ client, nodes = shared, ...fields }) => {
    clients.set(client, open(nodes, optionsIn(fields, OF_CLIENT)));
    return { nodes: clients.get(client).nodes };
  },
  acquire: async (command) =>
    keep(await lockOf(command).acquire({ wait: number(command.wait_ms ?? "inf") }), command),
  try: async (command) => {
    const acquired = await lockOf(command).tryAcquire();
    return acquired
      ? keep(acquired, command)
      : { ok: false, code: "held", message: "held by another" };
  },
  hold: async (command) =>
    keep(await clientOf(command).hold(command.name, optionsIn(command, ["ttl_ms"])), command),
  attach: async (command) => keep(await lockOf(command).attach(command.token), command),
  extend: async (command) => {
    await leaseOf(command).extend(command.ttl_ms);
    return state(leaseOf(command));
  },
  release: async (command) => {
    await leaseOf(command).release();
    return {};
  },
  detach: async (command) => ({ held: leaseOf(command).detach() }),
  held: async (command) => state(leaseOf(command)),
  ensure_held: async (command) => {
    leaseOf(command).ensureHeld();
    return {};
  },
  fencing_token: async (command) => ({ fencing_token: leaseOf(command).fencingToken }),
  inspect: async (command) => {
    const { held, mode, taken, limit, label, remaining, nodes } = await lockOf(command).inspect();
    return {
      held,
      mode,
      taken,
      limit,
      label,
      remaining_ms: remaining,
      nodes: nodes.map(({ key, state, token, label, error }) => ({
        key,
        state,
        token,
        label,
        error,
      })),
    };
  },
  keys: async (command) => {
    const lock = lockOf(command);
    return { key: lock.key, keys: lock.keys, shown: line(lock) };
  },
  force_release: async (command) => ({
    deleted: await clientOf(command).forceRelease(lockOf(command)),
  }),
  list_leases: async (command) => ({
    tokens: clientOf(command)
      .leases()
      .map(({ token }) => token)
      .sort(),
  }),
  release_all: async (command) => ({ released: await clientOf(command).releaseAll() }),
  shutdown: async (command) => ({
    released: await clientOf(command).shutdown(command.timeout_ms),
  }),
  stats: async (command) => {
    const { timeWaited, timeHeld, ...counts } = clientOf(command).stats();
    const named = Object.entries(counts).map(([name, count]) => [snake(name), count]);
    return { ...Object.fromEntries(named), time_waited_ms: timeWaited, time_held_ms: timeHeld };
  },
  ping: async (command) => {
    const { ready, readyIn, nodes } = await clientOf(command).ping(command.timeout_ms);
    const reports = nodes.map(({ url, ready, readyIn, latency, error }) => ({
      url,
      ready,
      ready_in_ms: readyIn,
      latency_ms: latency,
      error,
    }));
    return { ready, ready_in_ms: readyIn, nodes: reports };
  },
  once: async (command) => {
    const options = optionsIn(command, ["ttl_ms", "label", "remember_ms", "wait_ms"]);
    return await start(command, clientOf(command).once(command.name, options));
  },
  lead: async (command) => {
    leaders.set(command.lease, leaderOf(command));
    return await start(command, leaders.get(command.lease));
  },
  leader: async (command) => {
    const leader = leaders.get(command.lease) ?? leaderOf(command);
    return { leads: leader.isLeading, current: await leader.current() };
  },
  next: nextEvent,
  end: (command) => {
    ends.get(command.lease)(command.how);
    return nextEvent(command);
  },
  close: async (command) => {
    clientOf(command).close();
    return {};
  },
  lose: async (command) => ({ lost: await clientOf(command).lose(command.name) }),
  advance: async (command) => {
    await clientOf(command).advance(command.ms);
    return {};
  },
  jump: async (command) => {
    await clientOf(command).jump(command.ms);
    return {};
  },
  fail: async (command) => {
    clientOf(command).fail();
    return {};
  },
  recover: async (command) => {
    clientOf(command).recover();
    return {};
  },
  lost: async (command) => {
    const { signal } = leaseOf(command);
    const over = AbortSignal.timeout(command.timeout_ms);
    if (!signal.aborted) await once(AbortSignal.any([signal, over]), "abort");
    const at = now();
    if (!signal.aborted) return { ok: false, code: "timeout", message: "not lost" };
    if (leaseOf(command).held) throw new Error("told of a loss while it is held");
    return { at, reason: signal.reason.reason };
  },
};

/** Returns the result of a function, or the error that it throws, as a reply. */
const replyOf = async (call) => {
  try {
    const reply = await call();
    return { ok: true, at: now(), ...reply };
  } catch (error) {
    if (!(error instanceof LockError)) throw error;
    const at = now();
    const { kind, resource, reason, holder, waited, remaining } = error;
    const nodes = error.nodes.map(({ url, state, error }) => ({ url, state, error }));
    // Other languages name the nodes in their messages.
    const reports = error.nodes.map(({ url, error, state }) => `; ${url}: ${error ?? state}`);
    const message = error.message + reports.join("");
    const fields = { resource, reason, holder, waited_ms: waited, remaining_ms: remaining };
    const shown = inspect([error, clients], { depth: null }) + JSON.stringify(error) + error.stack;
    return { ok: false, at, code: kind, message, nodes, ...fields, shown };
  }
};

/** A line of output. A field without a value is null, as in the other languages. */
const say = (reply) =>
  process.stdout.write(`${JSON.stringify(reply, (_, value) => value ?? null)}\n`);

say({ ready: true, pid: process.pid });
for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  if (command.do === "quit") break;
  replyOf(() => commands[command.do](command)).then((reply) => say({ ...reply, id: command.id }));
}
process.exit(0);
