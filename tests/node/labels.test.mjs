// Labels of holders: the value of the key, what other clients show, and the values of other programs.
import assert from "node:assert/strict";
import { hostname } from "node:os";
import { Redlock } from "redlock-native";
import { serverForSuite, uniqueName } from "./helper.mjs";
import { test } from "./testing.mjs";

const shared = serverForSuite();

test("a label of another type is refused", () => {
  const message = /label must be a string, true or false \(got /;
  for (const label of [3, null, {}, ["web-3"]]) {
    assert.throws(() => new Redlock("memory://").lock("job", { label }), {
      kind: "invalid",
      message,
    });
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
  const lost = new Promise((resolve) => lease.onLost(resolve));
  await client.forceRelease("job");
  await lost;
  assert.ok(lease.token.endsWith(":web-3"));
});

test("many leases with and without a label have their tokens", async () => {
  const client = new Redlock(shared.server.url);
  const label = (at) => (at % 2 === 0 ? "web-3" : false);
  const locks = Array.from({ length: 100 }, (_, at) =>
    client.lock(uniqueName(), { label: label(at) }),
  );
  const leases = await Promise.all(locks.map((lock) => lock.acquire()));
  for (const [at, lease] of leases.entries()) {
    assert.match(lease.token, at % 2 === 0 ? /^[0-9a-f]{32}:web-3$/ : /^[0-9a-f]{32}$/);
  }
  assert.equal(new Set(leases.map((lease) => lease.token)).size, 100);
  await Promise.all(leases.map((lease) => lease.release()));
});
