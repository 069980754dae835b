// Error classes: codes, details, and stacks that include the caller's line.
import assert from "node:assert/strict";
import * as redlock from "redlock-native";
import { table, uniqueName } from "./helper.mjs";
import { test } from "./testing.mjs";

const { Redlock } = redlock;

const errors = Object.entries(redlock).filter(([, value]) => value.prototype instanceof Error);
const classes = new Map(errors);

test("each error has its class, kind, code and base class", () => {
  const rows = table("errors").error;
  assert.equal(classes.size, rows.length + 1);
  for (const { class: name, kind, also = "LockError" } of rows) {
    const error = new (classes.get(name))("text", { resource: "lock:a", cause: 7 });
    assert.ok(error instanceof classes.get(also) && error instanceof Error);
    const { message, resource, cause } = error;
    assert.deepEqual([error.name, message, resource, cause], [name, "text", "lock:a", 7]);
    assert.deepEqual([error.kind, error.code], [kind, `ERR_REDLOCK_${kind.toUpperCase()}`]);
    assert.match(String(error.stack), new RegExp(`^${name}: text`));
  }
  assert.equal("cause" in new redlock.LockLost("text"), false);
});

test("a bundler that renames the classes does not change error names", () => {
  for (const [name, Class] of classes) {
    const own = Object.getOwnPropertyDescriptor(Class, "name");
    Object.defineProperty(Class, "name", { ...own, value: "D" });
    try {
      const error = new Class("text");
      assert.equal(error.name, name);
      assert.match(error.stack, new RegExp(`^${name}: text`));
    } finally {
      Object.defineProperty(Class, "name", own);
    }
  }
});

test("the stack of a rejection shows the line of the acquire", async () => {
  const lock = new Redlock("memory://").lock(uniqueName(), { wait: 0 });
  const lease = await lock.acquire();
  async function theCaller() {
    return await lock.acquire();
  }
  await assert.rejects(theCaller(), (error) => {
    assert.match(error.stack, /theCaller/);
    assert.match(error.stack, /errors\.test\.mjs/);
    return true;
  });
  await lease.release();
});

test("the stack of an invalid option shows the line that passed it", () => {
  function theCaller() {
    new Redlock("memory://").lock("res", { ttl: 1 });
  }
  assert.throws(theCaller, (error) => /theCaller/.test(error.stack));
});

test("details that cannot be read leave the program's stack limit unchanged", () => {
  const { stackTraceLimit } = Error;
  assert.throws(() => new redlock.LockError("text", null), TypeError);
  assert.equal(Error.stackTraceLimit, stackTraceLimit);
});
