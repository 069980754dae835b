// Every way to load the package returns the same package.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import * as esm from "redlock-native";
import { test } from "./testing.mjs";

const run = promisify(execFile);
const root = fileURLToPath(new URL("../..", import.meta.url));
const cjs = createRequire(import.meta.url)("redlock-native");

const PUBLIC = [
  "ClientClosed",
  "InvalidOption",
  "Leader",
  "Lease",
  "Lock",
  "LockError",
  "LockLost",
  "LockReleased",
  "LockTimeout",
  "Once",
  "QuorumUnavailable",
  "Redlock",
  "RwLock",
  "Unsupported",
  "configure",
  "leader",
  "lock",
  "onLog",
  "onWarning",
  "once",
  "rwlock",
  "semaphore",
  "withLock",
];

test("require and import return the same classes and names", () => {
  assert.deepEqual(Object.keys(esm).sort(), PUBLIC);
  assert.deepEqual(Object.keys(cjs).sort(), PUBLIC);
  for (const [name, value] of Object.entries(esm)) assert.equal(value, cjs[name]);
});

test("require and import return the same functions for OpenTelemetry", async () => {
  const otel = await import("redlock-native/otel");
  assert.deepEqual(Object.keys(otel), ["instrument", "uninstrument"]);
  const common = createRequire(import.meta.url)("redlock-native/otel");
  for (const [name, value] of Object.entries(otel)) assert.equal(value, common[name]);
});

test("importing starts no thread and does not keep the process alive", async () => {
  const code = `
    require("redlock-native");
    console.log(require("fs").readdirSync("/proc/self/task")
      .map((id) => require("fs").readFileSync("/proc/self/task/" + id + "/comm", "utf8").trim())
      .filter((name) => name === "redlock").length)`;
  const { stdout } = await run(process.execPath, ["-e", code], { cwd: root, timeout: 10_000 });
  assert.equal(stdout.trim(), "0");
});

test("the default client uses the environment and is looked up per acquire", async () => {
  const code = `
    const { lock } = require("redlock-native");
    const described = lock("a", { wait: 0 });
    process.env.REDLOCK_NODES = "memory://one memory://two memory://three";
    described.acquire().then((lease) => console.log(lease.held))`;
  const env = { ...process.env, REDLOCK_NODES: "", REDIS_URL: "redis://127.0.0.1:1" };
  const { stdout } = await run(process.execPath, ["-e", code], { cwd: root, env, timeout: 10_000 });
  assert.equal(stdout, "true\n");
});

test("a variable with an invalid URL is named", async () => {
  const code = `
    const { lock } = require("redlock-native");
    lock("a").acquire().catch((error) => console.log(error.code, error.message))`;
  for (const variable of ["REDIS_URL", "REDLOCK_NODES"]) {
    const env = {
      ...process.env,
      REDIS_URL: "",
      REDLOCK_NODES: "",
      [variable]: "redis://b:s3cret",
    };
    const { stdout } = await run(process.execPath, ["-e", code], {
      cwd: root,
      env,
      timeout: 10_000,
    });
    assert.ok(stdout.includes(`the environment variable ${variable} is wrong: `), stdout);
    assert.ok(!stdout.includes("s3cret"), stdout);
  }
});

async function compile(project) {
  const args = ["node_modules/typescript/bin/tsc", "-p", `tests/node/types/${project}`];
  await run(process.execPath, args, { cwd: root }).catch(({ stdout }) => assert.fail(stdout));
}

for (const project of ["tsconfig.json", "commonjs.json", "bundler.json"]) {
  test(`types: ${project}`, () => compile(project));
}

test("await using releases at the end of its scope", async () => {
  await compile("dispose.json");
  const { stdout } = await run(process.execPath, ["target/node-types/dispose.mjs"], { cwd: root });
  assert.deepEqual(JSON.parse(stdout), { inside: true, after: true });
});
