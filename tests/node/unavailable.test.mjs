// `unavailableAfter`: an acquire without a `wait` fails if no quorum of nodes replies.
import assert from "node:assert/strict";
import { inspect } from "node:util";
import { Redlock } from "redlock-native";
import { TestRedlock } from "redlock-native/testing";
import { freePort, waiting } from "./helper.mjs";
import { test } from "./testing.mjs";

for (const options of [{}, { wait: Infinity }]) {
  test(`a closed port ends an acquire without a wait: ${inspect(options)}`, async () => {
    const url = `redis://127.0.0.1:${await freePort()}`;
    const client = new Redlock(url, { unavailableAfter: 1000 });
    const error = await client
      .lock("job")
      .acquire(options)
      .catch((error) => error);
    assert.equal(error.kind, "unavailable");
    assert.match(error.message, /Gave up after unavailableAfter: 1000\. Pass a finite wait to/);
    assert.match(error.message, /unavailableAfter: null/);
    assert.ok(error.waited >= 1000, String(error.waited));
    assert.deepEqual(
      error.nodes.map(({ url, state }) => [url, state]),
      [[url, "fault"]],
    );
  });
}

test("a body is not entered", async () => {
  const client = new Redlock(`redis://127.0.0.1:${await freePort()}`, { unavailableAfter: 300 });
  const body = () => assert.fail("called");
  await assert.rejects(client.lock("job").using(body), { kind: "unavailable" });
  await assert.rejects(client.using("job", body), { kind: "unavailable" });
});

for (const unavailableAfter of [300, null, undefined]) {
  test(`a held lock is waited for with ${unavailableAfter}`, async () => {
    const fake = new TestRedlock({ unavailableAfter });
    const theirs = await fake.hold("job");
    const acquire = fake.lock("job").acquire();
    await waiting(fake);
    for (let turn = 0; turn < 5; turn += 1) {
      await fake.jump(4000);
      await theirs.extend(10_000);
    }
    assert.equal(fake.stats().waiting, 1);
    await theirs.release();
    await (await acquire).release();
  });
}

test("null retries until the node replies", async () => {
  const fake = new TestRedlock({ unavailableAfter: null });
  fake.fail();
  const acquire = fake.lock("job").acquire();
  await waiting(fake);
  await fake.jump(3_600_000);
  assert.equal(fake.stats().waiting, 1);
  fake.recover();
  await (await acquire).release();
});

test("the default is ten seconds", async () => {
  const fake = new TestRedlock();
  fake.fail();
  const acquire = fake.lock("job").acquire();
  await waiting(fake);
  const failed = assert.rejects(acquire, /Gave up after unavailableAfter: 10000\./);
  await fake.jump(10_000);
  await failed;
});

test("a client prints the option and rejects other values", () => {
  const shown = (options) => new Redlock("redis://127.0.0.1:1", options).toJSON().options;
  assert.deepEqual(shown({ unavailableAfter: 1000 }), { unavailableAfter: 1000 });
  assert.deepEqual(shown({ unavailableAfter: null }), { unavailableAfter: null });
  for (const unavailableAfter of ["1", 0.5, false]) {
    assert.throws(
      () => shown({ unavailableAfter }),
      /a number of milliseconds, 0 or at least 1, or null/,
    );
  }
  assert.throws(() => shown({ connectTimeout: null }), { name: "InvalidOption" });
});
