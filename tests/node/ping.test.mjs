// `ping` in Node.js: mistakes. `conformance/test_failing.py` has the result, and `rust/ping.rs` the reasons of nodes.
import assert from "node:assert/strict";
import { Redlock } from "redlock-native";
import { test } from "./testing.mjs";

test("mistakes reject", async () => {
  const client = new Redlock("memory://");
  await assert.rejects(client.ping(0.5), /timeout must be a number of milliseconds/);
  await assert.rejects(client.ping({ timeout: 5 }), /timeout must be a number of milliseconds/);
  await assert.rejects(
    client.ping(50, { signal: AbortSignal.abort() }),
    /does not accept a signal/,
  );
});
