// The limits of the tests: a test that hangs fails by name, and every test has a limit.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { test } from "./testing.mjs";

const here = new URL(".", import.meta.url);

test("a hanging test fails by name, also where SIGINT is ignored", async () => {
  const { NODE_TEST_CONTEXT, ...env } = { ...process.env, REDLOCK_TEST_PATIENCE: "300" };
  const program = fileURLToPath(new URL("programs/hangs.mjs", here));
  const command = 'trap "" INT TERM HUP QUIT; exec "$0" --test --test-reporter=tap "$1"';
  const job = spawn("sh", ["-c", command, process.execPath, program], {
    env: { ...env, REDLOCK_TEST_SILENCE: "1000" },
    stdio: ["ignore", "pipe", "ignore"],
    detached: true,
  });
  let said = "";
  job.stdout.on("data", (chunk) => (said += chunk));
  const [code] = await once(job, "close");
  assert.equal(code, 1, said);
  assert.match(said, /not ok \d+ - this one hangs/);
  assert.match(said, /test timed out after 300ms/);
  assert.match(said, /\bok \d+ - this one goes on/);
});

test("every test file uses testing.mjs", () => {
  const files = readdirSync(here).filter((name) => name.endsWith(".test.mjs"));
  assert.ok(files.length > 30);
  for (const name of files) {
    const text = readFileSync(new URL(name, here), "utf8");
    assert.match(text, /from "\.\/testing\.mjs"/, name);
    assert.doesNotMatch(text, /from "node:test[/"]/, name);
  }
});
