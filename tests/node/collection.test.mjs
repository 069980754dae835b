// Leases whose objects the garbage collector may take, and those that it must not take.
import assert from "node:assert/strict";
import { program } from "./helper.mjs";
import { test } from "./testing.mjs";

test("only leases that the program can no longer reach are collected", async () => {
  const { code, stderr, lines } = await program("forgets", [], { flags: ["--expose-gc"] });
  assert.equal(code, 0, stderr);
  const { collected, lost, leads } = JSON.parse(lines.at(-1));
  assert.deepEqual(lost, ["lock:kept"]);
  // A listener keeps its lease, TestRedlock the leases from hold(), and a candidate that of its term.
  assert.deepEqual(collected, ["lock:forgotten-leader", "lock:plain"]);
  assert.equal(leads, true);
});
