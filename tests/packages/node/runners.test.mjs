// Test runners over the installed tarballs and a server: no leak, no open handle, whatever a test leaves behind.
import assert from "node:assert/strict";
import { cp, rm } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { serverForSuite } from "../../node/helper.mjs";
import { install, run } from "./install.mjs";

const FILES = 8;
const shared = serverForSuite();
let folder;

before(async () => {
  folder = await install();
  for (const [place, name] of [
    ["sandboxes", "test.js"],
    ["vitest", "test.mjs"],
    ["runner", "test.mjs"],
  ]) {
    const file = (which) => join(folder, place, `${which}.${name}`);
    for (let at = 1; at < FILES; at += 1) await cp(file("one"), file(`copy-${at}`));
  }
});

after(() => rm(folder, { recursive: true, force: true }));

/** What a command of the folder printed; it ends by itself, and in time. */
async function printed(command, ...args) {
  const { NODE_TEST_CONTEXT, ...env } = process.env;
  Object.assign(env, { REDIS_URL: shared.server.url, NODE_OPTIONS: "--expose-gc" });
  const options = { cwd: folder, env, timeout: 120_000 };
  const { stdout, stderr } = await run(command, args, options).catch((error) =>
    assert.fail(`${error}\n${error.stdout}${error.stderr}`),
  );
  return stdout + stderr;
}

const jest = (...flags) => {
  const where = ["--runInBand", "--rootDir", "sandboxes", "-c", "sandboxes/jest.config.cjs"];
  return printed(join(folder, "node_modules", ".bin", "jest"), ...where, ...flags);
};

describe("Jest", () => {
  test("--detectLeaks finds none", { timeout: 180_000 }, async () => {
    assert.match(await jest("--detectLeaks"), new RegExp(`Tests: +${FILES} passed`));
  });

  test("--detectOpenHandles finds none", { timeout: 180_000 }, async () => {
    const said = await jest("--detectOpenHandles");
    assert.match(said, new RegExp(`Tests: +${FILES} passed`));
    assert.doesNotMatch(said, /open handle|did not exit/);
  });

  test("the heap does not grow with the files", { timeout: 180_000 }, async (context) => {
    const said = await jest("--logHeapUsage");
    const heaps = [...said.matchAll(/\((\d+) MB heap size\)/g)].map((match) => Number(match[1]));
    context.diagnostic(`MB after each file: ${heaps.join(" ")}`);
    assert.equal(heaps.length, FILES, said);
    // Each holds 32 MB.
    assert.ok(Math.max(...heaps) - heaps[0] < 100, said);
  });
});

test("Vitest ends by itself", { timeout: 180_000 }, async () => {
  const vitest = join(folder, "node_modules", ".bin", "vitest");
  for (const pool of ["forks", "threads"]) {
    const said = await printed(
      vitest,
      "run",
      "--root",
      "vitest",
      "--pool",
      pool,
      "--reporter=default",
      "--reporter=hanging-process",
    );
    assert.match(said, new RegExp(`Tests .*${FILES} passed`), said);
    assert.doesNotMatch(said, /timed out|hanging|something prevents/i, said);
  }
});

test("node:test ends by itself", { timeout: 180_000 }, async () => {
  const files = ["one", ...Array.from({ length: FILES - 1 }, (_, at) => `copy-${at + 1}`)];
  const args = files.map((name) => join("runner", `${name}.test.mjs`));
  const said = await printed(process.execPath, "--test", "--test-reporter=tap", ...args);
  assert.match(said, new RegExp(`^# pass ${FILES}$`, "m"), said);
});
