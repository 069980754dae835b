// The package under other runtimes: newer Node.js versions pass its whole suite, and Bun and Deno run lock.mjs. They
// are separate from the other tests because they download the runtimes. Run `make test-runtimes`.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { serverForSuite } from "../../node/helper.mjs";
import { describe, test } from "../../node/testing.mjs";

const run = promisify(execFile);
const root = fileURLToPath(new URL("../../..", import.meta.url));
const program = fileURLToPath(new URL("lock.mjs", import.meta.url));
const shared = serverForSuite();

/**
 * The runtime's own executable. Each has a separate folder, because two Node.js versions in one would exclude each
 * other.
 */
async function installed(name) {
  const folder = join(root, "target", "runtimes", name.replace("@", "-"));
  mkdirSync(folder, { recursive: true });
  const quiet = ["--no-audit", "--no-fund", "--loglevel=error", "--prefer-offline"];
  await run("npm", ["install", ...quiet, "--prefix", folder, name], { cwd: root });
  return join(folder, "node_modules", ".bin", name.replace(/@.*/, ""));
}

/** Every file of the suite. */
function suite() {
  const files = readdirSync(join(root, "tests", "node"));
  const chosen = files.filter((file) => file.endsWith(".test.mjs"));
  return chosen.map((file) => join("tests", "node", file));
}

for (const [name, ...flags] of [["node@22"], ["node@24"], ["bun", "run"], ["deno", "run", "-A"]]) {
  describe(name, () => {
    test("takes and loses locks over a server, and ends", async () => {
      const args = [...flags, program, shared.server.url];
      const { stdout } = await run(await installed(name), args, { cwd: root, timeout: 30_000 });
      assert.equal(stdout, "every way\n");
    });

    if (name === "deno") {
      for (const missing of ["ffi", "env"]) {
        test(`names the permission that it lacks: ${missing}`, async () => {
          const allowed = ["read", "env", "ffi"].filter((kind) => kind !== missing);
          const permissions = allowed.map((kind) => `--allow-${kind}`);
          const args = ["run", "--no-prompt", ...permissions, program, "memory://"];
          const ended = run(await installed(name), args, { cwd: root, timeout: 30_000 });
          const { stderr } = await ended.then(
            () => assert.fail("it ran"),
            (error) => error,
          );
          assert.match(stderr, new RegExp(`Deno does not permit it .*--allow-${missing}`));
        });
      }
    }
    if (!name.startsWith("node")) return;
    test("passes the suite of the package", async (context) => {
      // The same time limits apply as elsewhere.
      const { NODE_TEST_CONTEXT, REDLOCK_TEST_PATIENCE, ...env } = process.env;
      const args = ["--test", "--test-reporter=tap", ...suite()];
      const ended = run(await installed(name), args, { cwd: root, env, maxBuffer: 2 ** 26 });
      const { stdout } = await ended.catch(({ stdout }) => assert.fail(stdout));
      assert.match(stdout, /^# fail 0$/m);
      const [, passed] = /^# pass (\d+)$/m.exec(stdout);
      const [, tests] = /^# tests (\d+)$/m.exec(stdout);
      context.diagnostic(`${passed} of ${tests}`);
      assert.ok(Number(passed) > 900);
    });
  });
}
