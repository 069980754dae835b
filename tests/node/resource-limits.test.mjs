// Processes that may open no more files, or start no more threads. The first use returns a clear error.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { serverForSuite } from "./helper.mjs";
import { describe, test } from "./testing.mjs";

const run = promisify(execFile);
const shared = serverForSuite();
const program = fileURLToPath(new URL("programs/exhausted.mjs", import.meta.url));

describe("the first use reports the exhausted resource", {
  skip: process.platform === "win32",
}, () => {
  for (const [what, command, env] of [
    ["files", "ulimit -n 64;", {}],
    // A stack size that no thread of redlock can have.
    ["threads", "", { RUST_MIN_STACK: String(2n ** 47n) }],
  ]) {
    test(what, async () => {
      const words = ["-c", `${command} exec "$0" "$@"`, process.execPath, program];
      const options = { env: { ...process.env, ...env }, timeout: 30_000 };
      const { stdout, stderr } = await run("sh", [...words, shared.server.url, what], options);
      assert.equal(stdout, "as it should be\n");
      assert.doesNotMatch(stderr, /panicked/);
    });
  }
});
