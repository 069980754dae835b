// Labels of holders: types, the process, and losses. `conformance/test_labels.py` has the rest.
import assert from "node:assert/strict";
import { hostname } from "node:os";
import { Redlock } from "redlock-native";
import { eventually, uniqueName } from "./helper.mjs";
import { test } from "./testing.mjs";

test("a label of another type is refused", () => {
  const client = new Redlock("memory://");
  for (const label of [3, null, {}, ["web-3"]]) {
    const message = /label must be a string, true or false \(got /;
    assert.throws(() => client.lock("job", { label }), { kind: "invalid", message });
  }
});

test("true is the label of the process, false is none, and a text is itself", async () => {
  const client = new Redlock("memory://", { label: true });
  const labelOf = async (label) => {
    const lease = await client.lock("job", { label }).acquire();
    await lease.release();
    return lease.token.slice(33);
  };
  const own = await labelOf(undefined);
  assert.ok(own.endsWith(`-${process.pid}`), own);
  assert.ok(
    own.startsWith(
      hostname()
        .replace(/[^\w.@-]/g, "-")
        .slice(0, 10),
    ),
    own,
  );
  assert.equal(await labelOf(true), own);
  assert.equal(await labelOf("true"), "true");
  assert.equal(await labelOf(false), "");
  assert.equal(await labelOf("false"), "false");
  assert.equal(await labelOf("lock"), "lock");
});

test("a lost lease keeps its token with the label", async () => {
  const client = new Redlock(`memory://${uniqueName()}`);
  const lease = await client.lock("job", { label: "web-3" }).acquire();
  await client.forceRelease("job");
  await eventually(() => assert.ok(!lease.held));
  assert.ok(lease.token.endsWith(":web-3"));
});
