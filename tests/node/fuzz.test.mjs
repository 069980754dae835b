// URLs and options made of pieces at random: InvalidOption or a client, never a panic, and never the password shown.
// `make fuzz` makes FUZZ_URLS of them; SEED says which.
import assert from "node:assert/strict";
import { inspect } from "node:util";
import { Redlock } from "redlock-native";
import { test } from "./testing.mjs";

const MOST = Number(process.env.FUZZ_URLS ?? 3000);
const PIECES = ["redis://", "rediss://", "unix://", "memory://", "redis+cluster://", "http://"];
PIECES.push("://", "user", ":", "@", "s3cret", "127.0.0.1", "[::1]", ":6379", ":99999", "/", "0");
PIECES.push("?", "&", "pass=", "password=", "db=", "#", "%40", "%", " ", ",", "\n", "\u202e", "é");
const VALUES = [undefined, null, -1, 0, 0.5, 5, 1e308, Number.NaN, Number.POSITIVE_INFINITY];
VALUES.push("s3cret", ["s3cret"], {}, "", true, 10n);
const CLIENT = ["keyPrefix", "nodeTimeout", "restartGuard", "tlsKey", "tlsCert", "tlsServerName"];
const LOCK = ["ttl", "wait", "renew", "maxHold", "nodeTimeout", "fencing", "retryCount"];

let state = BigInt(process.env.SEED ?? 1);
function below(end) {
  state = (state * 6364136223846793005n + 1442695040888963407n) & 0xffffffffffffffffn;
  return Number((state >> 33n) % BigInt(end));
}
const one = (list) => list[below(list.length)];
const some = (names, count) =>
  Object.fromEntries(Array.from({ length: count }, () => [one(names), one(VALUES)]));

function refused(error, about) {
  assert.equal(error.name, "InvalidOption", inspect([about, error]));
  // The text of a string that stands where a number belongs is shown; nodes and paths are not.
  const shown = error.message.replaceAll('is "s3cret"', "");
  assert.ok(!shown.includes("s3cret"), inspect([about, error.message]));
}

test("URLs and options of pieces", () => {
  let made = 0;
  for (let round = 0; round < MOST; round += 1) {
    const nodes = Array.from({ length: one([1, 1, 3]) }, () => {
      const start = one(["redis://", "redis://user:s3cret@", "redis://:s3cret", ""]);
      return start + Array.from({ length: below(7) }, () => one(PIECES)).join("");
    });
    const options = some(CLIENT, one([0, 0, 1, 2]));
    let client;
    try {
      client = new Redlock(nodes, options);
    } catch (error) {
      refused(error, [nodes, options]);
      continue;
    }
    made += 1;
    client.nodes.forEach((shown, at) => {
      const after = nodes[at].slice(nodes[at].lastIndexOf("@") + 1);
      assert.ok(!shown.includes("s3cret") || after.includes("s3cret"), inspect([nodes[at], shown]));
    });
    const more = some(LOCK, 2);
    try {
      client.lock(one(["job", "", "a\nb"]), more);
    } catch (error) {
      refused(error, more);
    }
  }
  assert.ok(made > MOST / 100);
});
