// A cluster of four workers and a BullMQ worker share one Redis and are killed and restarted at random. No two holders
// overlap, no key outlives its TTL, and nothing hangs. The test is short. `make soak-services-node` runs it for
// MINUTES.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createRequire } from "node:module";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { eventually, Server } from "../../node/helper.mjs";
import { test } from "../../node/testing.mjs";
import { Witness } from "./services/witness.mjs";

const MINUTES = Number(process.env.MINUTES ?? 0.3);
const TTL = 2_000;
const NAMES = ["a", "b", "c"];
const from = createRequire(import.meta.url);
const pick = (list) => list[Math.floor(Math.random() * list.length)];

class Services {
  async begin() {
    // A granted lock must survive a crash of the server. Otherwise one server guarantees nothing.
    this.server = await Server.start(["--appendonly", "yes", "--appendfsync", "always"]);
    this.witness = await Witness.listen();
    this.programs = new Map();
    for (const kind of ["cluster", "bull"]) this.start(kind);
    this.kills = { worker: 0, cluster: 0, bull: 0, redis: 0 };
    this.checks = [];
    this.stuck = [];
    this.ending = false;
  }

  start(kind) {
    const file = fileURLToPath(new URL(`services/${kind}.mjs`, import.meta.url));
    const env = {
      REDIS_URL: this.server.url,
      WITNESS: this.witness.port,
      NAMES: NAMES.join(),
      KIND: kind,
    };
    const child = spawn(process.execPath, [file], {
      env: { ...process.env, ...env },
      stdio: ["pipe", "ignore", "pipe"],
    });
    child.said = "";
    child.stderr.on("data", (chunk) => (child.said = `${child.said}${chunk}`.slice(-4_000)));
    child.ended = once(child, "exit");
    this.programs.set(kind, child);
  }

  /** After its TTL, a key of a killed process must be deleted or have another owner. */
  expects(tokens) {
    const check = async () => {
      await sleep(TTL + 1_000);
      for (const name of NAMES) {
        const value = await this.server.cli("GET", `lock:${name}`).catch(() => "");
        if (tokens.has(value)) this.stuck.push(`${name} ${value.slice(0, 8)}`);
      }
    };
    this.checks.push(check());
  }

  async kill(kind) {
    this.kills[kind] += 1;
    if (kind === "redis") return this.outage();
    const dying = [...this.witness.processes].filter(
      ([, each]) => each.kind === (kind === "bull" ? "bull" : "cluster"),
    );
    if (kind === "worker") {
      const chosen = pick(dying);
      if (chosen === undefined) return;
      const [pid, { tokens }] = chosen;
      process.kill(pid, "SIGKILL");
      this.expects(tokens);
      return;
    }
    const child = this.programs.get(kind);
    child.kill("SIGKILL");
    await child.ended;
    // The workers of a cluster end without its first process, and release nothing.
    for (const [, { tokens }] of dying) this.expects(tokens);
    this.start(kind);
  }

  /** Sometimes longer than a TTL. The holder of a lock must lose it before the next one acquires it. */
  async outage() {
    this.server.process.kill("SIGKILL");
    await once(this.server.process, "exit");
    await sleep(Math.random() * 2 * TTL);
    await this.server.begin();
  }

  /** Checks how the programs end when they are asked to. */
  async end() {
    await Promise.all(this.checks);
    const ended = [...this.programs.values()].map(async (child) => {
      child.kill("SIGTERM");
      const limit = new AbortController();
      const late = sleep(30_000, "late", { signal: limit.signal, ref: false }).catch(
        () => undefined,
      );
      const [code, signal] = await Promise.race([child.ended, late.then((word) => [word])]);
      limit.abort();
      return [code, signal, child.said];
    });
    return Promise.all(ended);
  }

  async stop() {
    for (const pid of this.witness?.processes.keys() ?? []) process.kill(pid, "SIGKILL");
    for (const child of this.programs?.values() ?? []) child.kill("SIGKILL");
    this.witness?.close();
    await this.server?.stop();
  }
}

/** Adds jobs as fast as the worker runs them, whatever happens to the server. */
function jobs(services) {
  const { Queue } = from("bullmq");
  const { Redis } = from("ioredis");
  const connection = new Redis(services.server.url, { maxRetriesPerRequest: null });
  connection.on("error", () => undefined);
  const queue = new Queue("kills", { connection });
  queue.on("error", () => undefined);
  const timer = setInterval(() => {
    queue
      .add("job", { name: pick(NAMES) }, { removeOnComplete: true, attempts: 5 })
      .catch(() => undefined);
  }, 150);
  return async () => {
    clearInterval(timer);
    const failed = await queue.getFailedCount();
    await queue.close();
    await connection.quit();
    return failed;
  };
}

async function chaos(services, until) {
  // Mostly workers are killed, and sometimes the server, which all wait for.
  const kinds = ["worker", "worker", "worker", "worker", "bull", "bull", "cluster", "redis"];
  for (let turn = 0; performance.now() < until; turn += 1) {
    await sleep(300 + Math.random() * 1_500);
    await services.kill(turn < 4 ? ["worker", "bull", "redis", "cluster"][turn] : pick(kinds));
  }
}

test("the witness sees two who hold one name at once, and only those", async () => {
  const witness = await Witness.listen();
  const holder = connect(witness.port, "127.0.0.1");
  // Holds one after the other, then one within another, and one of another name.
  const lines = ["hello 1 cluster", "in a t1 100", "at a t1 200", "in a t2 300", "at a t2 900"];
  lines.push("in a t3 500", "in b t4 500", "at a t3 60");
  holder.end(`${lines.join("\n")}\n`);
  await eventually(() => assert.equal(witness.holds.size, 4));
  const tokens = witness.overlaps().map((pair) => pair.map(({ from }) => from));
  assert.deepEqual(tokens, [[300, 500]]);
  witness.close();
});

const limit = MINUTES * 60_000 + 120_000;
test(`${MINUTES} minutes of kills`, { timeout: limit }, async (context) => {
  const services = new Services();
  let stopJobs;
  try {
    await services.begin();
    const { witness } = services;
    stopJobs = jobs(services);
    await eventually(() => assert.ok(witness.holds.size > 20), 30_000);
    const granted = witness.holds.size;
    await chaos(services, performance.now() + MINUTES * 60_000);
    // The remaining processes continue.
    const before = witness.holds.size;
    await eventually(() => assert.ok(witness.holds.size > before + 20), 30_000);
    const failed = await stopJobs();
    stopJobs = undefined;
    const ended = await services.end();
    const { done = 0, lost = 0, timeout = 0, unavailable = 0 } = witness.counts;
    const figures = {
      holds: witness.holds.size,
      done,
      lost,
      timeout,
      unavailable,
      failed,
      ...services.kills,
    };
    context.diagnostic(
      `${JSON.stringify(figures)}, longest time without a grant ${witness.longestGap()} ms`,
    );
    assert.ok(before > granted);
    assert.deepEqual(witness.overlaps(), []);
    assert.deepEqual(services.stuck, []);
    assert.deepEqual(witness.troubles, []);
    for (const [code, signal, said] of ended) assert.deepEqual([code, signal], [0, null], said);
    await eventually(
      async () => assert.equal(await services.server.cli("KEYS", "lock:*"), ""),
      TTL + 1_000,
    );
    for (const kind of Object.keys(services.kills)) assert.ok(services.kills[kind] > 0, kind);
    // The TTL of a killed holder, the server's start, and the load of the machine.
    assert.ok(witness.longestGap() < 15_000);
  } finally {
    await stopJobs?.();
    await services.stop();
  }
});
