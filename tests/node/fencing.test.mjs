// Fencing tokens: each later lease has a larger one, whichever client acquires it.
import assert from "node:assert/strict";
import { configure, lock, Redlock, withLock } from "redlock-native";
import { serverForSuite, uniqueName } from "./helper.mjs";
import { describe, test } from "./testing.mjs";

const shared = serverForSuite();
const kinds = {
  "memory://": () => `memory://${uniqueName()}`,
  "redis://": () => shared.server.url,
};

function increasing(tokens) {
  for (const token of tokens) assert.ok(Number.isSafeInteger(token) && token > 0, String(token));
  const sorted = [...new Set(tokens)].sort((a, b) => a - b);
  assert.deepEqual(tokens, sorted);
}

for (const [kind, url] of Object.entries(kinds)) {
  describe(kind, () => {
    test("tokens follow the order of the holders when many wait", async () => {
      const [nodes, name] = [url(), uniqueName()];
      const tokens = [];
      const turn = async (client) => {
        await client.using(name, { fencing: true }, (lease) => tokens.push(lease.fencingToken));
      };
      const clients = [new Redlock(nodes), new Redlock(nodes)];
      await Promise.all(clients.flatMap((client) => [1, 2, 3, 4, 5].map(() => turn(client))));
      assert.equal(tokens.length, 10);
      increasing(tokens);
    });

    test("the token can first be read after the release", async () => {
      const lease = await new Redlock(url()).lock(uniqueName(), { fencing: true }).tryAcquire();
      await lease.release();
      increasing([lease.fencingToken]);
    });
  });
}

test("the functions of the default client accept the option", async () => {
  configure(`memory://${uniqueName()}`);
  const name = uniqueName();
  const first = await withLock(name, { fencing: true }, (lease) => lease.fencingToken);
  const second = await lock(name, { fencing: true }).using((lease) => lease.fencingToken);
  increasing([first, second]);
  assert.throws(() => lock(name, { fencing: 1 }), { kind: "invalid", message: /fencing/ });
});
