// Shared helpers: throw-away servers, a view of their keys, and programs in separate processes.
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { randomInt } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { Redlock } from "redlock-native";
import { parse } from "smol-toml";
import { after, before } from "./testing.mjs";

const run = promisify(execFile);

const rights = readFileSync(new URL("../vectors/rights.txt", import.meta.url), "utf8");
/** A user with only the rights that docs/operate/security.md lists. `make test-acl` makes clients log in as this user. */
const USER = ["--user", "least", "on", ">s3cret-word", ...rights.trim().split(" ")];
const LOGIN = "REDLOCK_TEST_ACL" in process.env ? "least:s3cret-word@" : "";
/** For a test that needs a right which that user does not have. */
export const unlessLeast = (right) => ({ skip: LOGIN !== "" && `it needs ${right}` });

/** Whether no program listens on the port. */
async function isFree(port) {
  const server = createServer().listen(port, "127.0.0.1");
  const free = await once(server, "listening").then(
    () => true,
    () => false,
  );
  if (free) await new Promise((resolve) => server.close(resolve));
  return free;
}

/** The number of port ranges. Test files that run at the same time have different process IDs, and mostly ranges. */
const RANGES = 16;
const RANGE_SIZE = 10_000 / RANGES;
const firstPort = 12_000 + (process.pid % RANGES) * RANGE_SIZE;
let nextPort = randomInt(RANGE_SIZE);

/**
 * Returns a port on which no program listens. It is below the ephemeral range, so that no connection of a test takes it
 * before its server starts or while the server is down. A port is used again as late as possible, because a server that
 * a test killed must stay away.
 */
export async function freePort() {
  for (;;) {
    nextPort = (nextPort + 1) % RANGE_SIZE;
    const port = firstPort + nextPort;
    if (await isFree(port)) return port;
  }
}

/** The same for a server of a cluster. The others connect to it at its port plus 10,000. */
async function clusterPort() {
  for (;;) {
    const port = await freePort();
    if (await isFree(port + 10_000)) return port;
  }
}

/** Nodes that accept connections and never reply. `called()` is the number of connections. */
export async function silentNodes(count = 1) {
  const sockets = new Set();
  let calls = 0;
  const servers = Array.from({ length: count }, () =>
    createServer((socket) => {
      calls += 1;
      sockets.add(socket.on("error", () => undefined));
    }).listen(0, "127.0.0.1"),
  );
  await Promise.all(servers.map((server) => once(server, "listening")));
  return {
    ports: servers.map((server) => server.address().port),
    called: () => calls,
    stop() {
      for (const socket of sockets) socket.destroy();
      for (const server of servers) server.close();
    },
  };
}

/** Nodes for a suite that must not receive a connection by its end. */
export function silentNodesForSuite(count) {
  const silent = {};
  before(async () => {
    Object.assign(silent, await silentNodes(count));
  });
  after(async () => {
    // A background request would be in flight by now.
    await sleep(50);
    silent.stop();
    assert.equal(silent.called(), 0, "something was sent");
  });
  return silent;
}

/** A table of tests/vectors, which every language reads. */
export function table(name) {
  return parse(readFileSync(new URL(`../vectors/${name}.toml`, import.meta.url), "utf8"));
}

/** Options are spelled the JavaScript way here, in arguments and in messages. */
export const camel = (name) => name.replace(/_(.)/g, (_, letter) => letter.toUpperCase());

/** Returns a check that an error is InvalidOption and contains these words and not those. */
export function refusal(words, never = []) {
  return (thrown) => {
    assert.equal(thrown.name, "InvalidOption", String(thrown));
    assert.equal(thrown.kind, "invalid");
    for (const word of words) assert.ok(thrown.message.includes(word), thrown.message);
    for (const word of never) assert.ok(!thrown.message.includes(word), thrown.message);
    return true;
  };
}

/** The server program that the tests use. */
export const PROGRAM = process.env.REDLOCK_TEST_SERVER ?? "redis-server";

/** A Redis server in a separate folder. `stop()` ends it immediately. */
export class Server {
  static async start(more = []) {
    const server = new Server();
    server.port = await (more.includes("--cluster-enabled") ? clusterPort() : freePort());
    server.folder = await mkdtemp(join(tmpdir(), "redlock-node-"));
    const flags = ["--port", server.port, "--bind", "127.0.0.1", "--save", "", "--dir"];
    server.args = [...flags, server.folder, ...USER, ...more].map(String);
    await server.begin();
    return server;
  }

  async begin() {
    this.process = spawn(PROGRAM, this.args, { stdio: "ignore" });
    await eventually(async () => assert.equal(await this.cli("PING"), "PONG"));
  }

  /** Kills it and starts it again without data on the same port. */
  async restart() {
    this.process.kill("SIGKILL");
    await once(this.process, "exit");
    await this.begin();
  }

  get url() {
    return `redis://${LOGIN}127.0.0.1:${this.port}`;
  }

  /** As it appears in messages. */
  get shown() {
    return `redis://127.0.0.1:${this.port}`;
  }

  async cli(...args) {
    const { stdout } = await run("redis-cli", ["-p", this.port, "--raw", ...args].map(String));
    return stdout.trimEnd();
  }

  async stop() {
    const { exitCode, signalCode } = this.process;
    // A test may have killed it.
    if (exitCode === null && signalCode === null) {
      this.process.kill("SIGKILL");
      await once(this.process, "exit");
    }
    await rm(this.folder, { recursive: true, force: true });
  }
}

/** A server for the tests of one suite. */
export function serverForSuite() {
  const shared = {};
  before(async () => {
    shared.server = await Server.start();
  });
  after(() => shared.server?.stop());
  return shared;
}

/** Repeats the check until it succeeds, or fails with the last error after `timeout` ms. */
export async function eventually(check, timeout = 10_000) {
  const deadline = performance.now() + timeout;
  for (;;) {
    try {
      return await check();
    } catch (error) {
      if (performance.now() > deadline) throw error;
      await sleep(20);
    }
  }
}

/** Resolves once this many acquires of the client are in progress. */
export async function waiting(redlock, count = 1) {
  await eventually(() => assert.equal(redlock.stats().waiting, count));
}

/** Asserts that a lock that is held cannot be acquired again. */
export async function assertRefused(lock, options) {
  const second = await lock.tryAcquire(options);
  assert.equal(second, null, `two holders: ${lock.key} was acquired while it was held`);
}

/** Resolves once the client has reported a loss that happened after this call. Earlier losses were reported before it. */
export async function laterLoss(redlock) {
  const name = uniqueName("later");
  const lease = await redlock.lock(name).acquire();
  let reported = false;
  lease.onLost(() => {
    reported = true;
  });
  await redlock.forceRelease(name);
  await eventually(() => assert.ok(reported));
}

/**
 * Asserts that the client of this `clientName` has no connection to the server. Another client's commands come first: the
 * background thread has begun what it had to do before.
 */
export async function assertNotConnected(server, clientName) {
  const other = new Redlock(server.url, { clientName: `${clientName}-other` });
  await (await other.lock(uniqueName()).acquire()).release();
  const clients = await server.cli("CLIENT", "LIST");
  assert.ok(clients.includes(` name=${clientName}-other `), clients);
  assert.ok(!clients.includes(` name=${clientName} `), clients);
  other.close();
}

/** Blocks this thread, timers and all. */
export function block(ms) {
  const end = performance.now() + ms;
  while (performance.now() < end);
}

let names = 0;

/** Returns a name that no other test uses. */
export function uniqueName(about = "node") {
  names += 1;
  return `${about}-${process.pid}-${names}`;
}

/** Runs programs/NAME.mjs to its end. Returns its lines, its warnings and its exit code. */
export async function program(name, args = [], { flags = [], env = {}, timeout = 20_000 } = {}) {
  const file = fileURLToPath(new URL(`programs/${name}.mjs`, import.meta.url));
  const child = spawn(process.execPath, [...flags, file, ...args], {
    env: { ...process.env, ...env },
    timeout,
    killSignal: "SIGKILL",
  });
  let stdout = "";
  let stderr = "";
  child.stdout.on("data", (chunk) => (stdout += chunk));
  child.stderr.on("data", (chunk) => (stderr += chunk));
  const [code] = await once(child, "close");
  return { code, stderr, lines: stdout.split("\n").filter(Boolean) };
}
