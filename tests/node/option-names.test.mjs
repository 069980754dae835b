// The core names options and methods in the JavaScript spelling: in errors, nodes' errors and warnings.
import assert from "node:assert/strict";
import { Redlock } from "redlock-native";
import { eventually, Server, uniqueName } from "./helper.mjs";
import { after, before, test } from "./testing.mjs";

const warnings = [];
process.on("warning", (warning) => warnings.push(warning.message));
let three = [];

before(async () => {
  three = await Promise.all(Array.from({ length: 3 }, () => Server.start()));
});
after(() => Promise.all(three.map((server) => server.stop())));

/**
 * The names of Rust and Python as words of a text. `reason=max_hold` is a value, which is the same in every language.
 */
const FOREIGN =
  /(?<!reason=)\b(key_prefix|node_timeout|restart_guard|max_hold|tls_\w+|release_all|force_release|try_acquire|on_lost)\b/;

async function says(promise, kind, ...words) {
  await assert.rejects(promise, (error) => {
    assert.equal(error.kind, kind, error.message);
    const texts = [error.message, ...error.nodes.map((node) => node.error ?? "")];
    for (const word of words) assert.ok(error.message.includes(word), error.message);
    for (const text of texts) assert.doesNotMatch(text, FOREIGN);
    return true;
  });
}

test("restarted nodes are described with JavaScript option names", async () => {
  const urls = three.map((server) => server.url);
  const redlock = new Redlock(urls, { restartGuard: 600_000 });
  const lock = redlock.lock(uniqueName(), { ttl: 5000, wait: 0 });
  await says(lock.acquire(), "unavailable", "it restarted within restartGuard");
  for (const { error } of (await lock.inspect()).nodes) {
    assert.match(error, /restartGuard/);
    assert.doesNotMatch(error, FOREIGN);
  }
  const about = () =>
    warnings.filter((text) => three.some((server) => text.includes(server.shown)));
  await eventually(() => assert.ok(about().length >= 3));
  for (const text of about()) assert.doesNotMatch(text, FOREIGN);
  assert.ok(about().some((text) => text.includes("restartGuard")));
  redlock.close();
});

test("losses are described with JavaScript option names", async () => {
  const redlock = new Redlock("memory://");
  const capped = await redlock.lock(uniqueName(), { ttl: 200, maxHold: 200 }).acquire();
  await eventually(() => assert.equal(capped.held, false));
  await says(capped.release(), "lost", "held for maxHold");
  const taken = await redlock.lock(uniqueName()).acquire();
  await redlock.releaseAll();
  await says(taken.release(), "lost", "releaseAll, shutdown or another lease");
});
