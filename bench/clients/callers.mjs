// Node.js libraries with a loop per caller: LIBRARY MODE PORT[,PORT...] CALLERS SECONDS (see ../programs.py). MODE:
// pairs, fenced, handoff, hold.

import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

const [library, mode, listed, callers, seconds] = process.argv.slice(2);
const ports = listed.split(",").map(Number);
const CALLERS = Number(callers);
const SECONDS = Number(seconds);
const now = () => Number(process.hrtime.bigint());

// Each library returns, for a name, a function that acquires its lock and one that releases it.
const LIBRARIES = {
  async redlock() {
    const client = await ours();
    return (name) => {
      const lock = client.lock(name, { ttl: 10_000, fencing: mode === "fenced" });
      return { take: () => lock.acquire(), give: (lease) => lease.release() };
    };
  },

  /** A new lock for each request, as for `order:${id}`. */
  async "redlock-new"() {
    const client = await ours();
    return (name) => {
      const next = numbered(name);
      return {
        take: () => client.lock(next(), { ttl: 10_000 }).acquire(),
        give: (lease) => lease.release(),
      };
    };
  },

  async "redlock-using"() {
    const client = await ours();
    return (name) => {
      const next = numbered(name);
      return {
        take: () => client.using(next(), { ttl: 10_000 }, () => undefined),
        give: () => undefined,
      };
    };
  },

  async "redis-semaphore-new"() {
    const { Mutex, RedlockMutex } = await import("redis-semaphore");
    const clients = await connected();
    const options = { lockTimeout: 10_000, acquireTimeout: Infinity, refreshInterval: 0 };
    return (name) => {
      const next = numbered(name);
      const mutex = () =>
        clients.length === 1
          ? new Mutex(clients[0], next(), options)
          : new RedlockMutex(clients, next(), options);
      const take = async () => {
        const lock = mutex();
        await lock.acquire();
        return lock;
      };
      return { take, give: (lock) => lock.release() };
    };
  },

  async "node-redlock-5"() {
    const { default: Redlock } = await import("redlock");
    const client = new Redlock(await connected(), { retryCount: mode === "handoff" ? -1 : 0 });
    // Without a listener, an error of a single node ends the process.
    client.on("error", () => {});
    return (name) => ({
      take: () => (mode === "hold" ? renewed(client, name) : client.acquire([name], 10_000)),
      give: (lease) => lease.release(),
    });
  },

  async "node-redlock-4"() {
    const { default: Redlock } = await import("redlock-4");
    const client = new Redlock(await connected(), { retryCount: mode === "handoff" ? -1 : 0 });
    client.on("clientError", () => {});
    return (name) => ({
      take: () => client.lock(name, 10_000),
      give: (lease) => lease.unlock(),
    });
  },

  async "redis-semaphore"() {
    const { Mutex, RedlockMutex } = await import("redis-semaphore");
    const clients = await connected();
    // It uses one renewal timer per lock, which pairs do not need.
    const options = { lockTimeout: 10_000, acquireTimeout: Infinity };
    if (mode !== "hold") options.refreshInterval = 0;
    return (name) => {
      const lock =
        clients.length === 1
          ? new Mutex(clients[0], name, options)
          : new RedlockMutex(clients, name, options);
      return { take: () => lock.acquire().then(() => lock), give: () => lock.release() };
    };
  },
};

async function ours() {
  const { Redlock } = await import("../../bindings-node/index.mjs");
  const urls = ports.map((port) => `redis://127.0.0.1:${port}`);
  return new Redlock(urls, { restartGuard: 0 });
}

/** A thousand names, one after the other. */
function numbered(name) {
  let next = 0;
  return () => {
    next = (next + 1) % 1000;
    return `${name}-${next}`;
  };
}

async function connected() {
  const { Redis } = await import("ioredis");
  return ports.map((port) => {
    const client = new Redis(port, "127.0.0.1");
    client.on("error", () => {});
    return client;
  });
}

/** node-redlock 5 renews only inside a routine. */
function renewed(client, name) {
  return new Promise((taken) => {
    client.using([name], 10_000, async (signal) => {
      taken({
        get isAcquired() {
          return !signal.aborted;
        },
      });
      await sleep(3_600_000);
    });
  });
}

/** Reports that everything is warm. The measurement starts then. */
async function begin() {
  process.stdout.write("ready\n");
  await once(process.stdin, "data");
}

function finish(result) {
  process.stdout.write(`${JSON.stringify(result)}\n`, () => process.exit(0));
}

function used() {
  const usage = process.resourceUsage();
  return {
    cpu: (usage.userCPUTime + usage.systemCPUTime) / 1e6,
    switches: usage.voluntaryContextSwitches + usage.involuntaryContextSwitches,
  };
}

async function pairs(of) {
  const ways = Array.from({ length: CALLERS }, (_, number) => of(`bench-${number}`));
  const run = async (length) => {
    const took = [];
    let failed = 0;
    const [start, before] = [performance.now(), used()];
    const end = start + length * 1000;
    const work = async ({ take, give }) => {
      for (let at = performance.now(), next = 0; at < end; at = next) {
        try {
          await give(await take());
        } catch {
          failed++;
        }
        next = performance.now();
        took.push((next - at) * 1000);
      }
    };
    await Promise.all(ways.map(work));
    const [lasted, after] = [(performance.now() - start) / 1000, used()];
    const sorted = Float64Array.from(took).sort();
    return {
      pairs: took.length,
      seconds: lasted,
      p50: sorted[sorted.length >> 1],
      p99: sorted[Math.floor(sorted.length * 0.99)],
      cpu: after.cpu - before.cpu,
      switches: after.switches - before.switches,
      failed,
    };
  };
  // Long enough for the optimizing compiler.
  await run(0.4);
  await begin();
  finish(await run(SECONDS));
}

async function handoff(of) {
  const ways = Array.from({ length: CALLERS }, () => of("handoff"));
  const first = of("first");
  await first.give(await first.take());
  await begin();
  const stamps = [];
  const work = async ({ take, give }) => {
    const asked = now();
    const lease = await take();
    const taken = now();
    await sleep(5);
    stamps.push([asked, taken, now()]);
    await give(lease);
  };
  // A caller tries again only after all callers have had the lock. Otherwise the releasing caller would acquire it
  // again immediately, and the others would only wait.
  const waves = async () => {
    for (;;) await Promise.all(ways.map(work));
  };
  waves();
  await sleep(SECONDS * 1000);
  finish({ stamps });
}

const threads = () => readdirSync("/proc/self/task").length;
const memory = () => Number(/VmRSS:\s+(\d+)/.exec(readFileSync("/proc/self/status", "utf8"))[1]);

/** The first tenth includes everything that is allocated once, however many leases there are. */
async function hold(of) {
  const [empty, count, start] = [memory(), threads(), performance.now()];
  const [leases, tenth] = [[], CALLERS / 10];
  // As many at once as a busy server has.
  const take = async (from, to) => {
    const names = Array.from({ length: to - from }, (_, number) => `held-${from + number}`);
    leases.push(...(await Promise.all(names.map((name) => of(name).take()))));
  };
  await take(0, tenth);
  const first = memory();
  for (let at = tenth; at < CALLERS; at += 1000) await take(at, Math.min(at + 1000, CALLERS));
  const taken = (performance.now() - start) / 1000;
  const each = (memory() - first) / (CALLERS - tenth);
  await begin();
  const before = used().cpu;
  await sleep(SECONDS * 1000);
  const lost = leases.filter((lease) => !(lease.held ?? lease.isAcquired)).length;
  const cpu = used().cpu - before;
  const all = { leases: CALLERS, lost, cpu, kb: each, first_mb: (first - empty) / 1024 };
  finish({ ...all, threads: threads() - count, taken_s: taken });
}

const MODES = { pairs, fenced: pairs, handoff, hold };
await MODES[mode](await LIBRARIES[library]());
