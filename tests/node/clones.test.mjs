// Structured clones of a lease, a lock or a client are rejected with an error that names the class. Without it, the
// copy would be an empty object.
import assert from "node:assert/strict";
import { serialize } from "node:v8";
import { MessageChannel, Worker } from "node:worker_threads";
import { Redlock } from "redlock-native";
import { TestRedlock } from "redlock-native/testing";
import { uniqueName } from "./helper.mjs";
import { describe, test } from "./testing.mjs";

const COPY_FUNCTIONS = {
  structuredClone,
  serialize,
  postMessage(value) {
    const { port1 } = new MessageChannel();
    try {
      port1.postMessage(value);
    } finally {
      port1.close();
    }
  },
  workerData: (value) => new Worker("", { eval: true, workerData: value }),
};

const client = new Redlock(`memory://${uniqueName()}`);
const lock = client.lock(uniqueName());
const OBJECTS = {
  lease: [await lock.acquire(), /a lease cannot be copied to another thread\. Send lease\.token/],
  lock: [lock, /a lock cannot be copied to another thread\. Create a new one there/],
  client: [client, /a client cannot be copied to another thread\. Create a new one there/],
  "client for a test": [new TestRedlock(), /a client cannot be copied to another thread/],
};

for (const [name, copy] of Object.entries(COPY_FUNCTIONS)) {
  describe(`${name} rejects`, () => {
    for (const [kind, [object, message]] of Object.entries(OBJECTS)) {
      test(`a ${kind}`, () => {
        for (const value of [object, { object }, [object]]) {
          assert.throws(() => copy(value), message);
        }
      });
    }
  });
}
