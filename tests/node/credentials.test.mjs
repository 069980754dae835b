// Changing credentials: when the callback runs, and what happens if it returns none.
import assert from "node:assert/strict";
import { setImmediate as nextTurn } from "node:timers/promises";
import { Redlock } from "redlock-native";
import { Server } from "./helper.mjs";
import { after, before, describe, slow, test } from "./testing.mjs";

let server;
let url;
before(async () => {
  server = await Server.start(["--user", "app", "on", ">s3cret", ">s3cret-2", "~*", "+@all"]);
  url = `redis://127.0.0.1:${server.port}`;
});
after(() => server?.stop());

test("the function is called without this, and its text must be valid Unicode", async () => {
  let receiver = null;
  function credentials() {
    receiver = this;
    return "a\ud800";
  }
  const client = new Redlock(url, { credentials });
  await assert.rejects(client.lock("job", { wait: 0 }).acquire(), /without lone surrogates/);
  assert.equal(receiver, undefined);
});

test("the function is called at each connect and may be async", async () => {
  let asked = 0;
  const credentials = async () => {
    asked += 1;
    await nextTurn();
    return { username: "app", password: "s3cret" };
  };
  const client = new Redlock(url, { credentials });
  assert.equal(asked, 0);
  await (await client.lock("job").acquire()).release();
  assert.equal(asked, 1);
  assert.match(await server.cli("CLIENT", "LIST"), / user=app /);
  await server.cli("CLIENT", "KILL", "TYPE", "normal");
  await (await client.lock("job", { wait: 5000 }).acquire()).release();
  assert.ok(asked >= 2);
  client.close();
});

describe("a function without valid credentials is a node error within the timeout:", () => {
  const throwing = () => {
    throw new TypeError("s3cret");
  };
  const rows = [
    ["throws", throwing, "credentials threw TypeError (message not shown)"],
    ["rejects", async () => throwing(), "credentials threw TypeError"],
    [
      "never settles",
      () => new Promise(() => undefined),
      "credentials did not return within 1.500 s",
    ],
    ["returns undefined", () => undefined, "got a value of type undefined"],
    ["returns an invalid object", () => ({ password: 7 }), "got a value of type object"],
    ["returns an invalid list", () => ["app", "s3cret"], "got a value of type object"],
    [
      "returns a user in a field with another name",
      () => ({ user: "app", password: "s3cret" }),
      "credentials returned the unknown field user (did you mean username?). It must return a password or { username, password, lifetime }",
    ],
    [
      "returns an unknown field",
      () => ({ password: "s3cret", expiresAt: 7 }),
      "the unknown field expiresAt. It must return a password or { username,",
    ],
    [
      "returns a secret as a field",
      () => ({ password: "a", "s3cret-2": 1 }),
      "an unknown field. It",
    ],
    ["returns an empty password", () => "", "returned an empty password"],
    [
      "returns a lifetime that is too short",
      () => ({ password: "s3cret", lifetime: 5 }),
      "less than a second",
    ],
    ["returns a wrong password", () => ({ username: "app", password: "x-s3cret" }), "WRONGPASS"],
  ];
  for (const [about, credentials, words] of rows) {
    test(about, async () => {
      const client = new Redlock(url, { credentials, nodeTimeout: 3000 });
      await assert.rejects(client.lock("job", { wait: 0 }).acquire(), (error) => {
        assert.equal(error.kind, "unavailable");
        assert.ok(error.message.includes(words), error.message);
        assert.ok(!`${error.message} ${JSON.stringify(error.nodes)}`.includes("s3cret"));
        return true;
      });
      client.close();
    });
  }
});

test("invalid credentials options are rejected by the constructor", () => {
  const refused = (nodes, credentials, ...words) =>
    assert.throws(
      () => new Redlock(nodes, { credentials }),
      (error) => {
        assert.equal(error.kind, "invalid");
        for (const word of words) assert.ok(error.message.includes(word), error.message);
        assert.ok(!error.message.includes("s3cret"), error.message);
        return true;
      },
    );
  refused(url, "s3cret", "credentials must be a function (got string)");
  const node = "redis://:s3cret@127.0.0.1:1";
  refused(node, () => "s3cret", "credentials is set", "redis://127.0.0.1:1");
});

slow(
  "a promise settles later than an attempt waits for it",
  "a function whose promise does not settle is called once",
  async () => {
    let calls = 0;
    let settle;
    const credentials = () => {
      calls += 1;
      return new Promise((resolve) => {
        settle = resolve;
      });
    };
    const client = new Redlock(url, { credentials });
    await assert.rejects(client.lock("job", { wait: 33_000 }).acquire(), {
      kind: "unavailable",
      message: /did not return/,
    });
    assert.equal(calls, 1);
    settle({ username: "app", password: "s3cret" });
    await (await client.lock("job", { wait: 10_000 }).acquire()).release();
    assert.equal(calls, 1, "its late result was not used");
    client.close();
  },
);
