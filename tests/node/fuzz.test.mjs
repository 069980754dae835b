// URLs and options made of pieces result in InvalidOption or a client, never in a panic or an exposed password. `make
// fuzz` tries FUZZ_URLS new ones each time. A failing one is shrunk, and its seed printed.
import assert from "node:assert/strict";
import { inspect } from "node:util";
import fc from "fast-check";
import { Redlock } from "redlock-native";
import { test } from "./testing.mjs";

const FUZZ_RUNS = process.env.FUZZ_URLS;
const PIECES = ["redis://", "rediss://", "unix://", "memory://", "redis+cluster://", "http://"];
PIECES.push("://", "user", ":", "@", "s3cret", "127.0.0.1", "[::1]", ":6379", ":99999", "/", "0");
PIECES.push("?", "&", "pass=", "password=", "db=", "#", "%40", "%", " ", ",", "\n", "\u202e", "é");
const STARTS = ["redis://", "redis://user:s3cret@", "redis://:s3cret", ""];
const VALUES = [undefined, null, -1, 0, 0.5, 5, 1e308, Number.NaN, Number.POSITIVE_INFINITY];
VALUES.push("s3cret", ["s3cret"], {}, "", true, 10n);
const CLIENT = ["keyPrefix", "nodeTimeout", "restartGuard", "tlsKey", "tlsCert", "tlsServerName"];
const LOCK = ["ttl", "wait", "renew", "maxHold", "nodeTimeout", "fencing", "retryCount"];

const piece = fc.oneof(fc.constantFrom(...PIECES), fc.string({ maxLength: 3 }));
const rest = fc.array(piece, { maxLength: 6 });
const url = fc.tuple(fc.constantFrom(...STARTS), rest).map(([start, end]) => start + end.join(""));
const value = fc.oneof(fc.constantFrom(...VALUES), fc.anything());
const options = (names) => fc.dictionary(fc.constantFrom(...names), value, { maxKeys: 2 });

function refused(error, about) {
  assert.equal(error.name, "InvalidOption", inspect([about, error]));
  // The text of a string in the place of a number is shown. Nodes and paths are not.
  const shown = error.message.replaceAll('got "s3cret"', "");
  assert.ok(!shown.includes("s3cret"), inspect([about, error.message]));
}

function tries(nodes, clientOptions, name, lockOptions) {
  let client;
  try {
    client = new Redlock(nodes, clientOptions);
  } catch (error) {
    return refused(error, [nodes, clientOptions]);
  }
  client.nodes.forEach((shown, at) => {
    const after = nodes[at].slice(nodes[at].lastIndexOf("@") + 1);
    assert.ok(!shown.includes("s3cret") || after.includes("s3cret"), inspect([nodes[at], shown]));
  });
  try {
    client.lock(name, lockOptions);
  } catch (error) {
    refused(error, lockOptions);
  }
}

test("generated URLs and options are accepted or rejected cleanly", {
  timeout: FUZZ_RUNS ? 3_600_000 : 90_000,
}, () => {
  const nodes = fc.array(url, { minLength: 1, maxLength: 3 });
  const name = fc.oneof(fc.constantFrom("job", "", "a\nb"), fc.string({ unit: "binary" }));
  // The test suite always uses the same ones.
  const runs = FUZZ_RUNS ? { numRuns: Number(FUZZ_RUNS) } : { numRuns: 500, seed: 1 };
  fc.assert(fc.property(nodes, options(CLIENT), name, options(LOCK), tries), runs);
});
