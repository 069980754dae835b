// A panic in the native part becomes an exception, and the process continues.
import assert from "node:assert/strict";
import * as redlock from "redlock-native";
import { program } from "./helper.mjs";
import { test } from "./testing.mjs";

test("a panic in a call or a future becomes an exception", async () => {
  // A backtrace of Node.js takes longer than the TTL of the other lease.
  const env = { RUST_BACKTRACE: "0" };
  const { code, stderr, lines } = await program("panics", [], { env });
  assert.equal(code, 0, stderr);
  const { sync, futures, onceMore, renewed, next } = JSON.parse(lines.at(-1));
  assert.match(sync.message, /a deliberate panic/);
  assert.equal(futures.length, 3);
  for (const { name, kind, message } of [...futures, onceMore[1]]) {
    assert.deepEqual([name, kind], ["LockError", "internal"]);
    assert.match(message, /internal error/);
  }
  assert.deepEqual(onceMore[0], sync);
  assert.deepEqual([renewed, next], [true, true]);
  // All six panics occurred. The log has their own text.
  assert.equal(stderr.match(/panicked at/g)?.length, 6, stderr);
});

test("the package does not export the functions that panic", () => {
  assert.ok(Object.keys(redlock).length > 5);
  for (const name of Object.keys(redlock)) assert.doesNotMatch(name, /panic/i);
});
