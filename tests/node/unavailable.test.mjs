// `unavailableAfter`: an acquire without a `wait` fails if no quorum of nodes replies.
import assert from "node:assert/strict";
import { inspect } from "node:util";
import { Redlock } from "redlock-native";
import { freePort } from "./helper.mjs";
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
