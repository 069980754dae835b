// `ping` in Node.js: the result and mistakes. `rust/ping.rs` has the reasons of nodes.
import assert from "node:assert/strict";
import { Redlock } from "redlock-native";
import { serverForSuite } from "./helper.mjs";
import { test } from "./testing.mjs";

const _shared = serverForSuite();

test("mistakes reject", async () => {
  const client = new Redlock("memory://");
  await assert.rejects(client.ping(0), /the timeout of ping must be above 0/);
  await assert.rejects(client.ping(0.5), /timeout must be a number of milliseconds/);
  await assert.rejects(client.ping({ timeout: 5 }), /timeout must be a number of milliseconds/);
  await assert.rejects(
    client.ping(50, { signal: AbortSignal.abort() }),
    /does not accept a signal/,
  );
  client.close();
  await assert.rejects(client.ping(), { kind: "closed" });
});
