// The command line of the npm package. `tests/rust/cli` tests the commands themselves.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import manifest from "../../package.json" with { type: "json" };
import { serverForSuite, uniqueName } from "./helper.mjs";
import { test } from "./testing.mjs";

const shared = serverForSuite();
const program = fileURLToPath(new URL(`../../${manifest.bin.redlock}`, import.meta.url));

/** Starts `redlock COMMAND`, and collects its output. */
function start(...words) {
  const child = spawn(process.execPath, [program, ...words]);
  const output = { out: "", err: "" };
  child.stdout.setEncoding("utf8").on("data", (text) => {
    output.out += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text) => {
    output.err += text;
  });
  return { child, output };
}

test("a command has its status and its lock", async () => {
  const name = uniqueName();
  const script = "echo $REDLOCK_NAME; exit 7";
  const words = ["run", "--url", shared.server.url, name, "--", "sh", "-c", script];
  const { child, output } = start(...words);
  assert.deepEqual(await once(child, "close"), [7, null]);
  assert.deepEqual(output, { out: `${name}\n`, err: "" });
});

test("wrong arguments name the command", async () => {
  const { child, output } = start("run", "--ttl", "soon", "job", "true");
  assert.deepEqual(await once(child, "close"), [64, null]);
  assert.match(output.err, /'soon' for '--ttl <TIME>'/);
});

for (const signal of ["SIGINT", "SIGTERM"])
  test(`${signal} ends the command`, async () => {
    const words = ["run", "--url", shared.server.url, uniqueName(), "--"];
    const { child } = start(...words, "sh", "-c", "echo ready; exec cat");
    await once(child.stdout, "data");
    child.kill(signal);
    assert.deepEqual(await once(child, "close"), [null, signal]);
  });
