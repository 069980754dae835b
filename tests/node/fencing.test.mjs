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
    test("tokens of two clients increase with each lease", async () => {
      const [nodes, name] = [url(), uniqueName()];
      const clients = [new Redlock(nodes), new Redlock(nodes)];
      const tokens = [];
      for (let turn = 0; turn < 20; turn += 1) {
        const lease = await clients[turn % 2].lock(name, { fencing: true, wait: 5000 }).acquire();
        tokens.push(lease.fencingToken);
        await lease.release();
      }
      increasing(tokens);
    });

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

    test("extend and release do not change the token", async () => {
      const lease = await new Redlock(url()).lock(uniqueName(), { fencing: true }).acquire();
      const token = lease.fencingToken;
      await lease.extend(20_000);
      assert.equal(lease.fencingToken, token);
      await lease.release();
      assert.equal(lease.fencingToken, token);
    });

    test("the token can first be read after the release", async () => {
      const lease = await new Redlock(url()).lock(uniqueName(), { fencing: true }).tryAcquire();
      await lease.release();
      increasing([lease.fencingToken]);
    });
  });
}

test("a lease without a token explains the fencing option", async () => {
  const described = new Redlock("memory://").lock(uniqueName());
  const lease = await described.acquire();
  const refusal = { kind: "invalid", name: "InvalidOption", resource: described.key };
  assert.throws(() => lease.fencingToken, { ...refusal, message: /fencing: true/ });
  await lease.release();
  assert.throws(() => lease.fencingToken, refusal);
});

test("the server stores the token beside the lock key", async () => {
  const { server } = shared;
  const lease = await new Redlock(server.url).lock(uniqueName(), { fencing: true }).acquire();
  assert.equal(await server.cli("GET", `{${lease.key}}:fence`), String(lease.fencingToken));
  await lease.release();
});

test("several names share one token", async () => {
  const redlock = new Redlock(shared.server.url);
  const names = [uniqueName(), uniqueName()];
  const token = (name) => redlock.using(name, { fencing: true }, (lease) => lease.fencingToken);
  const tokens = [await token(names[1]), await token(names)];
  for (const name of names) {
    const stored = await shared.server.cli("GET", `{${redlock.lock(name).key}}:fence`);
    assert.equal(stored, String(tokens[1]));
  }
  tokens.push(await token(names[0]));
  increasing(tokens);
});

test("tokens increase over a quorum", async () => {
  const redlock = new Redlock([1, 2, 3].map(() => `memory://${uniqueName()}`));
  const described = redlock.lock(uniqueName(), { fencing: true });
  const tokens = [];
  for (let turn = 0; turn < 10; turn += 1) {
    await described.using(({ fencingToken }) => tokens.push(fencingToken));
  }
  increasing(tokens);
});

test("the functions of the default client accept the option", async () => {
  configure(`memory://${uniqueName()}`);
  const name = uniqueName();
  const first = await withLock(name, { fencing: true }, (lease) => lease.fencingToken);
  const second = await lock(name, { fencing: true }).using((lease) => lease.fencingToken);
  increasing([first, second]);
  assert.throws(() => lock(name, { fencing: 1 }), { kind: "invalid", message: /fencing/ });
});

test("a name whose fence key would be in another slot is rejected", () => {
  const redlock = new Redlock("memory://");
  assert.throws(() => redlock.lock("a}b", { fencing: true }), { kind: "invalid" });
  assert.equal(redlock.lock("a}b").key, "lock:a}b");
});
