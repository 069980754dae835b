// Invalid values of options, names, tokens and signals: InvalidOption, with the thrown value as its cause.
import assert from "node:assert/strict";
import { configure, lock, Redlock, withLock } from "redlock-native";
import { eventually, refusal, uniqueName } from "./helper.mjs";
import { describe, test } from "./testing.mjs";

const redlock = new Redlock(`memory://${uniqueName()}`);
const thrown = new Error("what the getter throws");
const fail = () => {
  throw thrown;
};
class Milliseconds extends Number {}
const revoked = () => {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
};

/** Functions that take options. Each name is one of their options. */
const CALLS = {
  "new Redlock()": ["nodeTimeout", (options) => new Redlock("memory://", options)],
  "configure()": ["nodeTimeout", (options) => configure("memory://", options)],
  "client.lock()": ["ttl", (options) => redlock.lock("name", options)],
  "lock()": ["ttl", (options) => lock("name", options)],
  "acquire()": ["wait", (options) => redlock.lock(uniqueName()).acquire(options)],
  "client.using()": ["ttl", (options) => redlock.using(uniqueName(), options, () => assert.fail())],
  "withLock()": ["ttl", (options) => withLock(uniqueName(), options, () => assert.fail())],
  "lock.using()": [
    "wait",
    (options) => redlock.lock(uniqueName()).using(options, () => assert.fail()),
  ],
};
/** Functions that take names. */
const NAMED = {
  "new Redlock()": (nodes) => new Redlock(nodes),
  "client.lock()": (names) => redlock.lock(names),
  "lock()": (names) => lock(names),
  "attach()": (names) => redlock.attach(names, "token"),
  "forceRelease()": (names) => redlock.forceRelease(names),
  "client.using()": (names) => redlock.using(names, () => assert.fail()),
  "withLock()": (names) => withLock(names, () => assert.fail()),
};

function refused(use, words, cause) {
  return assert.rejects(
    async () => use(),
    (error) => {
      refusal(words)(error);
      assert.equal(error.cause, cause);
      return true;
    },
  );
}

for (const [call, [name, take]] of Object.entries(CALLS)) {
  describe(`options of ${call}`, () => {
    test("invalid values are rejected", async () => {
      const invalid = [null, Number.NaN, -1, 0.5, 10n, Symbol("ttl"), "5", {}, [], () => 1, true];
      invalid.push(new Number(1000), new Milliseconds(1000), new Date(), Object.create(null));
      invalid.push(Number.NEGATIVE_INFINITY, Number.MAX_VALUE, {
        constructor: { name: Symbol("x") },
      });
      invalid.push({ constructor: null }, Object.defineProperty({}, "constructor", { get: fail }));
      for (const value of invalid) await refused(() => take({ [name]: value }), [name], undefined);
    });

    test("values that are not objects are rejected", async () => {
      for (const options of [null, 5n, Symbol("o"), "text", true, [], [{}]]) {
        await refused(() => take(options), ["options must be an object"], undefined);
      }
    });

    test("errors of getters and proxies become the cause", async () => {
      const getter = Object.defineProperty({}, name, { get: fail, enumerable: true });
      await refused(() => take(getter), [`cannot read ${name}`], thrown);
      class Settings {}
      Object.defineProperty(Settings.prototype, name, { get: fail });
      await refused(() => take(new Settings()), [`cannot read ${name}`], thrown);
      const proxies = [{ get: fail }, { ownKeys: fail }];
      for (const traps of proxies) {
        await refused(() => take(new Proxy({ [name]: 1 }, traps)), ["cannot read "], thrown);
      }
      await assert.rejects(async () => take(revoked()), refusal(["cannot read "]));
    });
  });
}

for (const [call, take] of Object.entries(NAMED)) {
  test(`invalid names of ${call} are rejected`, async () => {
    const invalid = [undefined, null, 5, 5n, Symbol("name"), {}, () => 1, true, new String("a")];
    invalid.push(
      new Set(["a"]),
      [5],
      Object.assign(["a"], { length: 2 }),
      [["a"]],
      ["a", null],
      "\ud800",
      ["a", "b\udc80"],
    );
    for (const names of invalid) await refused(() => take(names), ["must be a"], undefined);
    await refused(
      () => take(Object.defineProperty(["a"], 0, { get: fail })),
      ["cannot read "],
      thrown,
    );
    await refused(() => take(new Proxy(["a"], { get: fail })), ["cannot read "], thrown);
    await assert.rejects(async () => take(revoked()), refusal(["cannot read "]));
  });
}

test("options are read once, including inherited ones", async () => {
  let read = 0;
  const changing = {
    get ttl() {
      read += 1;
      return read === 1 ? 2000 : "text";
    },
  };
  const lease = await redlock.lock(uniqueName(), Object.create(changing)).acquire();
  assert.equal(read, 1);
  assert.ok(lease.remaining > 1000 && lease.remaining <= 2000);
  await lease.release();
  const options = { ttl: 2000 };
  const described = redlock.lock(uniqueName(), options);
  options.ttl = "text";
  await described.using((held) => assert.ok(held.remaining <= 2000));
  const names = ["a", "b"];
  const several = redlock.lock(names);
  names[0] = 5;
  assert.deepEqual(several.keys, ["lock:a", "lock:b"]);
});

describe("signals", () => {
  const listens = { addEventListener: () => undefined, removeEventListener: () => undefined };

  test("that are not AbortSignals are rejected", async () => {
    const invalid = [null, 5, "signal", {}, { aborted: false }, { ...listens, aborted: 0 }];
    invalid.push(
      { aborted: false, addEventListener: 5, removeEventListener: 5 },
      new AbortController(),
    );
    for (const signal of invalid) {
      const words = ["signal must be an AbortSignal"];
      await refused(() => redlock.lock("name").acquire({ signal }), words, undefined);
    }
    const getter = Object.defineProperty({ ...listens }, "aborted", { get: fail });
    await refused(() => redlock.lock("name").acquire({ signal: getter }), ["signal"], thrown);
  });

  test("that reject a listener leave no key", async () => {
    const described = redlock.lock(uniqueName(), { ttl: 60_000 });
    const signal = { ...listens, aborted: false, addEventListener: fail };
    await refused(() => described.acquire({ signal }), ["cannot listen to the signal"], thrown);
    const lease = await eventually(async () => {
      const next = await described.tryAcquire();
      assert.ok(next, "the key is still there");
      return next;
    });
    await lease.release();
  });

  test("of other packages may have no reason", async () => {
    const signal = Object.assign(new EventTarget(), { aborted: false });
    const described = redlock.lock(uniqueName());
    const lease = await described.acquire();
    const waiting = described.acquire({ signal });
    signal.aborted = true;
    signal.dispatchEvent(new Event("abort"));
    await assert.rejects(waiting, { name: "AbortError" });
    await assert.rejects(described.acquire({ signal }), { name: "AbortError" });
    await lease.release();
  });
});

test("invalid tokens, functions and times are rejected", async () => {
  for (const token of ["", 5, null, {}, Symbol("t"), "\ud800", new String("a"), revoked()]) {
    await assert.rejects(redlock.attach("name", token), refusal(["token"]));
  }
  const described = redlock.lock(uniqueName());
  for (const body of [undefined, null, 5, {}, "text", Symbol("b"), revoked()]) {
    await assert.rejects(described.using(body), refusal(["using()"]));
    await assert.rejects(redlock.using("name", {}, body), refusal(["using()"]));
    await assert.rejects(withLock("name", {}, body), refusal(["withLock()"]));
  }
  // No lock was acquired for an invalid body.
  const lease = await described.tryAcquire();
  for (const callback of [undefined, null, 5, {}, revoked()]) {
    assert.throws(() => lease.onLost(callback), refusal(["onLost()"]));
  }
  for (const ttl of [null, 5n, Symbol("ttl"), {}, revoked(), new Number(1000)]) {
    await assert.rejects(lease.extend(ttl), refusal(["ttl must be a number"]));
  }
  for (const ttl of [-1, 1.5, "1000"]) await assert.rejects(lease.extend(ttl), refusal(["ttl"]));
  assert.equal(lease.held, true);
  await lease.release();
});

test("an infinite count is rejected", () => {
  const make = () => new Redlock("redis://a", { minReplicas: Number.POSITIVE_INFINITY });
  assert.throws(make, refusal(["minReplicas", "whole number"]));
});

test("a long invalid text is shortened in the message", () => {
  assert.throws(
    () => redlock.lock("name", { ttl: "x".repeat(1_000_000) }),
    ({ name, message }) => name === "InvalidOption" && message.length < 500,
  );
  assert.throws(
    () => redlock.lock("name", { ["x".repeat(1_000_000)]: 1 }),
    ({ name, message }) => name === "InvalidOption" && message.length < 500,
  );
});
