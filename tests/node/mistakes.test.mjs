// Values that are allowed or possible, but probably not meant: they cause an error or a warning.
import assert from "node:assert/strict";
import { Redlock } from "redlock-native";
import { eventually, refusal, silentNodes, uniqueName } from "./helper.mjs";
import { describe, test } from "./testing.mjs";

/** Collects the texts of the process's warnings. */
function warnings(context) {
  const warned = context.mock.method(process, "emitWarning", () => undefined);
  return (words) =>
    warned.mock.calls
      .map((call) => call.arguments[0].message)
      .filter((text) => text.includes(words));
}

test("an attach with a wrong token reports that the lease is not held", async () => {
  const [client, name] = [new Redlock("memory://"), uniqueName()];
  const nothing = { kind: "lost", reason: "missing", message: /not attached.*key does not exist/ };
  await assert.rejects(client.attach(name, "wrong"), nothing);
  await client.lock(name).acquire();
  const error = await client.attach(name, "wrong").catch((error) => error);
  assert.equal(error.reason, "taken");
  assert.match(error.message, /not attached.*token of another owner/);
  assert.doesNotMatch(error.message, /ago/);
});

test("a very long extend causes one warning", async (context) => {
  const [warned, name] = [warnings(context), uniqueName()];
  const lease = await new Redlock("memory://").lock(name).acquire();
  await lease.extend(30_000_000);
  await lease.extend(30_000_000);
  await eventually(() => assert.equal(warned(name).length, 1));
  assert.match(warned(name)[0], /the ttl is above one hour\. Check its unit/);
  await lease.release();
});

test("names that look like mistakes cause one warning each", async (context) => {
  const [warned, name, missing] = [warnings(context), uniqueName(), undefined];
  const client = new Redlock("memory://");
  const parts = [`\${user}`, `{user}`, `${missing}`, `${null}`, `${{}}`, "nullable", "{42}"];
  for (const part of [...parts, ...parts]) {
    await client.using(`${name}:${part}`, () => undefined);
  }
  await eventually(() => assert.equal(warned(name).length, 5, warned("").join("\n")));
  const contain = [`\${user} as text`, "{user} as text", "undefined", "null", "[object Object]"];
  for (const [at, text] of warned(name).entries()) {
    assert.ok(text.startsWith("the name may be a mistake: it contains "), text);
    assert.ok(text.includes(`contains ${contain[at]}`), text);
  }
});

test("an even number of nodes causes a warning", async (context) => {
  const [warned, name] = [warnings(context), uniqueName()];
  for (const count of [1, 2, 3, 4]) {
    new Redlock(Array.from({ length: count }, (_, node) => `memory://${name}-${count}-${node}`));
  }
  const texts = () => warned("survive no more failures");
  await eventually(() => assert.equal(texts().length, 2, warned("").join("\n")));
  assert.match(texts()[0], /^2 nodes survive no more failures than 1,.*Use an odd number/);
  assert.match(texts()[1], /^4 nodes survive no more failures than 3,.*Use an odd number/);
});

describe("a misspelled option is guessed:", () => {
  const client = new Redlock("memory://");
  const calls = {
    ttl: () => client.lock("job", { tll: 5000 }),
    maxHold: () => client.lock("job", { maxHlod: 5000 }),
    connectTimeout: () => new Redlock("memory://", { conectTimeout: 5000 }),
  };
  for (const [meant, call] of Object.entries(calls)) {
    test(meant, () => assert.throws(call, refusal([`Did you mean ${meant}?`])));
  }
  test("the option wait, misspelled", async () => {
    await assert.rejects(client.lock("job").acquire({ wiat: 5 }), refusal(["Did you mean wait?"]));
  });
});

test("a short wait blames no node", async () => {
  const silent = await silentNodes();
  const client = new Redlock(`redis://127.0.0.1:${silent.ports[0]}`);
  const error = await client
    .lock("job")
    .acquire({ wait: 1 })
    .catch((error) => error);
  assert.equal(error.kind, "unavailable");
  assert.match(error.message, /wait was too short to receive a reply of the node/);
  assert.deepEqual(
    error.nodes.map(({ state }) => state),
    ["pending"],
  );
  silent.stop();
});

describe("the long hold of a leader causes no warning:", () => {
  const leaders = {
    maxHold: (client, name) => client.lock(name, { ttl: 20_000, maxHold: 60_000 }).acquire(),
    wait: (client, name) => client.lock(name, { ttl: 20_000, wait: Infinity }).acquire(),
    acquire: (client, name) => client.lock(name, { ttl: 20_000 }).acquire({ wait: Infinity }),
  };
  for (const [how, acquire] of Object.entries(leaders)) {
    test(how, async (context) => {
      const warned = warnings(context);
      const [client, name] = [new Redlock("memory://"), uniqueName()];
      const leases = [await acquire(client, `${name}-leader`), await other(client, name, how)];
      for (const lease of leases) await lease.extend(100);
      await eventually(() => assert.equal(warned(`${name}-other`).length, 1));
      const { renewed } = client.stats();
      await eventually(() => assert.ok(client.stats().renewed > renewed + 6));
      assert.deepEqual(warned(`${name}-leader`), []);
      for (const lease of leases) await lease.release();
    });
  }
});

/** Acquires a lock that is logged. A call site is reported once, so each has its own line. */
async function other(client, name, how) {
  const lock = client.lock(`${name}-other`, { ttl: 20_000 });
  if (how === "maxHold") return await lock.acquire();
  if (how === "wait") return await lock.acquire();
  return await lock.acquire();
}
