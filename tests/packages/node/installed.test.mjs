// The suite's tests of exits, threads, copies and ends against the installed tarballs, whose binary differs from the
// development build. Tests that end a process or a thread run repeatedly.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { cp, realpath, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { install, root, run } from "./install.mjs";

const RUNS = Number(process.env.REDLOCK_TEST_EXITS ?? 20);
let folder;

before(async () => {
  folder = await install();
  for (const name of ["node", "vectors"]) {
    await cp(join(root, "tests", name), join(folder, "tests", name), { recursive: true });
  }
  const where = ["-p", "require.resolve('redlock-native')"];
  const { stdout } = await run(process.execPath, where, { cwd: join(folder, "tests", "node") });
  assert.ok(stdout.startsWith(await realpath(folder)), stdout);
});

after(() => rm(folder, { recursive: true, force: true }));

/**
 * Runs test files of the suite in the folder. Returns the number of passed tests. With NODE_TEST_CONTEXT they would not
 * report.
 */
async function suite(...files) {
  const env = { ...process.env };
  delete env.NODE_TEST_CONTEXT;
  const names = files.map((file) => `tests/node/${file}`);
  const child = spawn(process.execPath, ["--test", "--test-reporter=tap", ...names], {
    cwd: folder,
    env,
  });
  let said = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (said += chunk));
  const [code, signal] = await once(child, "close");
  assert.deepEqual([code, signal], [0, null], said);
  const counted = (what) => Number(said.match(new RegExp(`^# ${what} (\\d+)`, "m"))[1]);
  assert.deepEqual([counted("fail"), counted("cancelled"), counted("skipped")], [0, 0, 0], said);
  assert.ok(counted("pass") > 0, said);
  return counted("pass");
}

/** Number of concurrent runs, which mostly wait. */
const MAX_CONCURRENT = 4;

describe(`${RUNS} times`, () => {
  for (const file of ["process.test.mjs", "workers.test.mjs", "shutdown.test.mjs"]) {
    test(file, { timeout: 900_000 }, async (context) => {
      let [passed, begun] = [0, 0];
      const runner = async () => {
        for (; begun < RUNS; ) {
          begun += 1;
          const more = await suite(file);
          passed += more;
        }
      };
      await Promise.all(Array.from({ length: MAX_CONCURRENT }, runner));
      context.diagnostic(`${passed} tests passed in ${RUNS} runs`);
    });
  }
});

test("what is shipped does what the tree does", { timeout: 300_000 }, async (context) => {
  const files = [
    "abort.test.mjs",
    "package-copies.test.mjs",
    "errors.test.mjs",
    "lease-list.test.mjs",
    "invalid-values.test.mjs",
    "scope.test.mjs",
    "semantics.test.mjs",
    "option-names.test.mjs",
    "rwlock.test.mjs",
  ];
  context.diagnostic(`${await suite(...files)} tests passed`);
});

describe("a bundle", () => {
  const program = `
    const redlock = require("redlock-native");
    const names = Object.values(redlock).filter((value) => value.prototype instanceof Error);
    const client = new redlock.Redlock("memory://");
    const lock = client.lock("job", { wait: 0 });
    (async () => {
      const lease = await lock.acquire();
      const refused = await lock.acquire().catch((error) => error);
      await lease.release();
      const wrong = await client.shutdown(-1).catch((error) => error);
      await client.shutdown();
      const closed = await lock.acquire().catch((error) => error);
      const made = names.map((Class) => new Class("text").name).sort();
      console.log([refused.name, wrong.name, closed.name, ...made].join(" "));
      console.log(refused.stack.split(":")[0]);
    })();`;

  test("that renames everything names each error as it is", async () => {
    await writeFile(join(folder, "bundled.cjs"), program);
    const flags = ["--bundle", "--minify", "--platform=node", "--external:*.node"];
    // The platform's package is found at run time, as without a bundler.
    const args = ["bundled.cjs", ...flags, "--external:@*", "--external:redlock-native-*"];
    await run(join(folder, "node_modules", ".bin", "esbuild"), [...args, "--outfile=out/app.cjs"], {
      cwd: folder,
    });
    const { stdout } = await run(process.execPath, ["out/app.cjs"], { cwd: folder });
    const own =
      "ClientClosed InvalidOption LockError LockLost LockReleased LockTimeout QuorumUnavailable Unsupported";
    assert.equal(stdout, `LockTimeout InvalidOption ClientClosed ${own}\nLockTimeout\n`);
  });
});
