// Error classes: codes, details, and stacks that include the caller's line.
import assert from "node:assert/strict";
import * as redlock from "redlock-native";
import { freePort, table, uniqueName } from "./helper.mjs";
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

test("QuorumUnavailable lists the error of each node without passwords", async () => {
  const [one, two] = [await freePort(), await freePort()];
  const urls = [`redis://user:secret@127.0.0.1:${one}`, `redis://127.0.0.1:${two}`, "memory://"];
  const lock = new Redlock(urls, { restartGuard: 0 }).lock(uniqueName(), { wait: 0, ttl: 1000 });
  await assert.rejects(lock.acquire(), (error) => {
    assert.equal(error.name, "QuorumUnavailable");
    assert.equal(error.kind, "unavailable");
    assert.equal(error.resource, lock.key);
    assert.equal(error.nodes.length, 3);
    const faults = error.nodes.filter((node) => node.state === "fault");
    assert.equal(faults.length, 2);
    for (const fault of faults) {
      assert.ok(fault.error.length > 0);
      assert.ok(error.message.includes(fault.error));
    }
    assert.ok(error.nodes.some((node) => node.url.includes(`:${two}`)));
    assert.ok(!JSON.stringify([error.message, error.nodes]).includes("secret"));
    return true;
  });
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
