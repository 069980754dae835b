// Passwords, keys and foreign texts (vectors/secrets.toml): what is never shown, and what is shown only escaped.
import assert from "node:assert/strict";
import { once } from "node:events";
import { inspect } from "node:util";
import { Redlock } from "redlock-native";
import { camel, eventually, serverForSuite, table } from "./helper.mjs";
import { test } from "./testing.mjs";

const shared = serverForSuite();
const secrets = table("secrets");
// biome-ignore lint/suspicious/noControlCharactersInRegex: the test looks for them
const CONTROL_CHARACTERS = /[\u0000-\u001f\u007f-\u009f\u2028\u202e]/;

const TOKEN = /[0-9a-f]{32}/i;

/** Checks that the error contains the required text, and that no format of it contains a secret. */
function check(error, words) {
  for (const word of words) assert.ok(error.message.includes(word), error.message);
  const forms = [error.message, inspect(error, { depth: null }), error.stack];
  forms.push(JSON.stringify({ ...error }), JSON.stringify(error.nodes ?? []));
  for (const form of forms) assert.ok(!form.includes("s3cret"), form);
  for (const form of forms.slice(0, 3)) assert.doesNotMatch(withoutResource(form), TOKEN);
  for (const text of [error.message, ...(error.nodes ?? []).map((node) => node.error)]) {
    assert.doesNotMatch(text, CONTROL_CHARACTERS);
  }
  assert.ok(error.message.length < 1000, error.message);
  return true;
}

/** Leaves out the exact key, which a printed error shows as a property. */
const withoutResource = (text) => text.replaceAll(/resource: .*/g, "");

for (const { about, nodes, says } of secrets.refused) {
  test(`a rejected value is not quoted: ${about}`, () => {
    assert.throws(
      () => new Redlock(nodes),
      (error) => error.kind === "invalid" && check(error, says),
    );
  });
}

for (const { about, options, says } of secrets.tls) {
  test(`a value that is not a path is not quoted: ${about}`, () => {
    const named = Object.entries(options).map(([name, text]) => [camel(`tls_${name}`), text]);
    assert.throws(
      () => new Redlock("rediss://127.0.0.1:1", Object.fromEntries(named)),
      (error) => error.kind === "invalid" && check(error, says.map(camel)),
    );
  });
}

for (const { about, nodes } of secrets.accepted) {
  test(`an accepted secret is not shown: ${about}`, async () => {
    const redlock = new Redlock(nodes);
    const lock = redlock.lock("job", { wait: 0 });
    await assert.rejects(lock.acquire(), (error) => check(error, []));
    const shown = inspect([redlock, lock, redlock.nodes], { depth: null }) + String(redlock);
    assert.ok(!shown.includes("s3cret"), shown);
    redlock.close();
  });
}

for (const { about, name, shown } of secrets.name) {
  test(`a name is shown on one line and stored unchanged: ${about}`, async () => {
    const warnings = [];
    const listen = (warning) => warnings.push(warning.message);
    process.on("warning", listen);
    const redlock = new Redlock(shared.server.url);
    const lock = redlock.lock(name, { wait: 0 });
    const lease = await lock.acquire();
    assert.equal(lease.key, `lock:${name}`);
    await assert.rejects(lock.acquire(), (error) => {
      assert.equal(error.resource, lease.key);
      return check(error, [shown]);
    });
    await redlock.forceRelease(name);
    // No listener reports the loss, so a warning does.
    await eventually(() => assert.ok(warnings.some((text) => text.includes(shown))));
    for (const text of warnings) assert.doesNotMatch(text, CONTROL_CHARACTERS);
    for (const text of [...warnings, inspect(lock), inspect(lease)]) {
      assert.doesNotMatch(text, TOKEN);
    }
    const next = await lock.acquire();
    const lost = once(next.signal, "abort");
    await redlock.forceRelease(name);
    await lost;
    check(next.signal.reason, [shown]);
    process.off("warning", listen);
    redlock.close();
  });
}
