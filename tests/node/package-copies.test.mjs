// Copies of the package: a test runner's file or a reloaded server that drops a copy keeps nothing of it.
import assert from "node:assert/strict";
import { program, serverForSuite, uniqueName } from "./helper.mjs";
import { describe, slow, test } from "./testing.mjs";

const shared = serverForSuite();
const COPIES = 50;

describe("unused copies of the package are collected and stop renewing:", () => {
  // The newest copy stays in require.cache, and the previous one may be on the stack.
  for (const [how, most] of [
    ["context", 0],
    ["reloaded", 2],
    ["reloaded-code", 2],
  ]) {
    for (const kind of ["memory://", "redis://"]) {
      slow(
        "it waits for the garbage collector in many processes",
        `${how}, ${kind}`,
        async (context) => {
          const url = kind === "memory://" ? `${kind}${uniqueName()}` : shared.server.url;
          const options = { flags: ["--expose-gc"], timeout: 60_000 };
          const { code, stderr, lines } = await program("copies", [how, COPIES, url], options);
          assert.equal(code, 0, stderr);
          assert.doesNotMatch(stderr, /told/);
          const { alive, stuck, files, threads, handles, heap } = JSON.parse(lines.at(-1));
          context.diagnostic(lines.at(-1));
          assert.ok(alive <= most, `${alive} of ${COPIES} copies are still there`);
          assert.ok(stuck <= most, `${stuck} locks are still held`);
          // One connection for each remaining copy.
          assert.ok(
            Math.max(files, threads, handles) <= 5,
            `${files} files, ${threads} threads, ${handles} handles more`,
          );
          // A reloaded binary leaves about 22 kB in Node.js. A copy of the code is ten times as large.
          assert.ok(heap < COPIES * 64 * 1024, `${heap} bytes`);
        },
      );
    }
  }
});

test("loading a copy inside an async context retains none of its stores", async () => {
  const flags = ["--expose-gc"];
  const { code, stderr, lines } = await program("contexts", [5], { flags, timeout: 60_000 });
  assert.equal(code, 0, stderr);
  assert.deepEqual(lines, ["0"]);
});

for (const name of ["redlock-native", "redlock-native/testing"]) {
  test(`a context with ${name} does not keep the one before it`, async () => {
    const flags = ["--expose-gc"];
    const { code, stderr, lines } = await program("sandboxes", [5, name], { flags });
    assert.equal(code, 0, stderr);
    assert.deepEqual(lines, ["0"]);
  });
}
