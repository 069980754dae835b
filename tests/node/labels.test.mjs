// Labels of holders: the value of the key, what other clients show, and the values of other programs.
import assert from "node:assert/strict";
import { hostname } from "node:os";
import { Redlock } from "redlock-native";
import { serverForSuite, silentNodesForSuite, table, uniqueName } from "./helper.mjs";
import { test } from "./testing.mjs";

const { valid, invalid, error: words, foreign } = table("labels");
const DIGITS = "0123456789abcdef".repeat(2);
const shared = serverForSuite();

const refused = (client, name) =>
  client
    .lock(name, { wait: 0 })
    .acquire()
    .then(
      () => assert.fail("it was acquired"),
      (error) => {
        assert.equal(error.kind, "timeout", error.message);
        return error;
      },
    );

test("other clients name the holder, and the token has the label", async () => {
  const [mine, theirs] = [new Redlock(shared.server.url), new Redlock(shared.server.url)];
  for (const label of valid) {
    const name = uniqueName();
    const lease = await mine.lock(name, { label }).acquire();
    assert.match(lease.token.slice(0, 32), /^[0-9a-f]{32}$/);
    assert.equal(lease.token.slice(32), `:${label}`);
    const error = await refused(theirs, name);
    assert.equal(error.holder, label);
    assert.ok(error.message.includes(`already held by ${label}, and expires in`), error.message);
    const seen = await theirs.lock(name).inspect();
    assert.deepEqual([seen.held, seen.label, seen.nodes[0].label], [true, label, label]);
    await lease.extend(20_000);
    await lease.release();
    assert.equal(lease.token.slice(32), `:${label}`, "after the release");
    assert.equal((await theirs.lock(name).inspect()).label, undefined);
  }
});

const silent = silentNodesForSuite(1);

test("an invalid label is refused before anything is sent", () => {
  const url = `redis://127.0.0.1:${silent.ports[0]}`;
  const client = new Redlock(url);
  for (const label of [...invalid, "a,b"]) {
    for (const call of [() => client.lock("job", { label }), () => new Redlock(url, { label })]) {
      assert.throws(call, (error) => {
        assert.equal(error.kind, "invalid");
        for (const word of words) assert.ok(error.message.includes(word), error.message);
        return true;
      });
    }
  }
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
  const lost = new Promise((resolve) => lease.onLost(resolve));
  await client.forceRelease("job");
  await lost;
  assert.ok(lease.token.endsWith(":web-3"));
});

test("attach continues a lease with a label", async () => {
  const client = new Redlock(shared.server.url);
  const name = uniqueName();
  const ours = await client.lock(name, { label: "web-3" }).acquire();
  await assert.rejects(client.attach(name, ours.token.slice(0, 32)), { kind: "lost" });
  const theirs = await client.lock(name, { label: "web-4" }).attach(ours.token);
  assert.equal(theirs.token, ours.token);
  ours.detach();
  assert.equal((await refused(client, name)).holder, "web-3");
  await theirs.release();
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

test("a foreign value is never shown", async () => {
  const client = new Redlock(shared.server.url);
  for (const value of [...foreign, `{digits}:forged${"x".repeat(10_000)}`]) {
    const name = uniqueName();
    await shared.server.cli("SET", `lock:${name}`, value.replace("{digits}", DIGITS), "PX", 60_000);
    const error = await refused(client, name);
    assert.equal(error.holder, undefined);
    assert.ok(!error.message.includes("forged") && /^\P{Cc}*$/u.test(error.message), error.message);
    const seen = await client.lock(name).inspect();
    assert.deepEqual([seen.held, seen.label, seen.nodes[0].label], [true, undefined, undefined]);
  }
});

test("force release deletes a kept value with the longest label", async () => {
  const client = new Redlock(shared.server.url);
  const name = uniqueName();
  const lock = client.lock(name, { label: "x".repeat(48), minHold: 5000 });
  await (await lock.acquire()).release();
  assert.equal((await lock.inspect()).nodes[0].state, "kept");
  assert.equal(await client.forceRelease(name), true);
  await (await lock.acquire()).release();
  await client.forceRelease(name);
});
