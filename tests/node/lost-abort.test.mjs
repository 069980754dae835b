// A body that ends because the loss of its lease aborted `lease.signal`: `using` rejects with the loss.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { EventEmitter, once } from "node:events";
import { createServer } from "node:http";
import { Readable, Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { configure, LockLost, Redlock, withLock } from "redlock-native";
import { serverForSuite, uniqueName } from "./helper.mjs";
import { after, describe, test } from "./testing.mjs";

const shared = serverForSuite();
const url = `memory://${uniqueName()}`;
const redlock = new Redlock(url);
configure(url, { replace: true });

// Neither a held lease nor most of the operations keep the process alive.
const alive = setInterval(() => {}, 60_000);
after(() => clearInterval(alive));

/** Each way to run a body. */
const WAYS = {
  "lock.using": (name, body) => redlock.lock(name).using(body),
  "lock.using with a signal": (name, body) =>
    redlock.lock(name).using({ signal: new AbortController().signal }, body),
  "client.using": (name, body) => redlock.using(name, body),
  withLock: (name, body) => withLock(name, body),
};

/** Rejects with this error when the signal aborts. */
const rejects = (make) => (signal) =>
  new Promise((_, reject) => {
    signal.addEventListener("abort", () => reject(make(signal)), { once: true });
  });

const axiosError = () => Object.assign(new Error("canceled"), { code: "ERR_CANCELED" });
const undiciError = () =>
  Object.assign(new Error("Request aborted"), { name: "AbortError", code: "UND_ERR_ABORTED" });

/** Operations of the platform and of libraries that a signal stops. */
const OPERATIONS = {
  "node:timers/promises": (signal) => sleep(600_000, undefined, { signal }),
  "node:events": (signal) => once(new EventEmitter(), "never", { signal }),
  "node:stream": (signal) =>
    pipeline(new Readable({ read() {} }), new Writable({ write() {} }), { signal }),
  "node:child_process": (signal) =>
    promisify(execFile)(process.execPath, ["-e", "setInterval(() => {}, 1e6)"], { signal }),
  "AbortSignal.any": (signal) =>
    sleep(600_000, undefined, {
      signal: AbortSignal.any([signal, new AbortController().signal]),
    }),
  "a DOMException": rejects(() => new DOMException("This operation was aborted", "AbortError")),
  axios: rejects(axiosError),
  undici: rejects(undiciError),
};

/** Runs a body whose lease is lost. Returns the error of the body, and that of the call. */
async function lose(way, operation) {
  let thrown;
  const name = uniqueName();
  const failed = await WAYS[way](name, async (lease) => {
    const running = operation(lease.signal, lease).catch((error) => {
      thrown = error;
      throw error;
    });
    await Promise.all([running, redlock.forceRelease(name)]);
  }).catch((error) => error);
  return { thrown, failed };
}

for (const way of Object.keys(WAYS)) {
  describe(`${way} of a lost lease`, () => {
    for (const [what, operation] of Object.entries(OPERATIONS)) {
      test(`rejects with the loss if ${what} was aborted`, async () => {
        const { thrown, failed } = await lose(way, operation);
        assert.ok(failed instanceof LockLost, String(failed));
        assert.deepEqual([failed.kind, failed.code], ["lost", "ERR_REDLOCK_LOST"]);
        assert.match(failed.reason, /^(missing|taken)$/);
        assert.equal(failed.cause, thrown);
        assert.ok(!(thrown instanceof LockLost));
        assert.match(failed.stack.split("\n").slice(1).join("\n"), /lost-abort\.test\.mjs/);
      });
    }

    test("rejects with the signal's reason if the body threw it", async () => {
      const reason = rejects((signal) => signal.reason);
      const { thrown, failed } = await lose(way, reason);
      assert.ok(failed instanceof LockLost);
      assert.equal(failed, thrown);
    });

    test("rejects with the body's error if the loss did not abort the body", async () => {
      const errors = [
        new Error("body"),
        new DOMException("late", "TimeoutError"),
        Object.assign(new Error("other"), { name: "AbortError", cause: new Error("other") }),
        undefined,
        null,
        Object.create(null, { name: { get: () => assert.fail("unreadable") } }),
      ];
      for (const error of errors) {
        const { failed } = await lose(
          way,
          rejects(() => error),
        );
        assert.equal(failed, error);
      }
    });
  });
}

test("an abort without a loss stays the body's error", async () => {
  const error = new DOMException("This operation was aborted", "AbortError");
  for (const call of Object.values(WAYS)) {
    const body = (lease) => {
      void lease.signal;
      throw error;
    };
    await assert.rejects(call(uniqueName(), body), (failed) => failed === error);
  }
});

test("an abort stays the body's error if only the release notices a loss", async () => {
  // Without pushes, so that nothing else notices the loss.
  const client = new Redlock(`${shared.server.url}?protocol=2`);
  const error = new DOMException("This operation was aborted", "AbortError");
  const body = async (lease) => {
    void lease.signal;
    await shared.server.cli("DEL", lease.key);
    throw error;
  };
  await assert.rejects(client.using(uniqueName(), body), (failed) => failed === error);
  await client.shutdown();
});

test("an abort by the caller's signal stays an abort if the lease is lost later", async () => {
  const controller = new AbortController();
  const name = uniqueName();
  const body = async ({ signal }) => {
    const sleeping = sleep(600_000, undefined, { signal });
    controller.abort(new Error("gone"));
    await Promise.allSettled([sleeping, redlock.forceRelease(name)]);
    await sleeping;
  };
  const failed = await redlock
    .using(name, { signal: controller.signal }, body)
    .catch((error) => error);
  assert.deepEqual([failed.name, failed.cause.message], ["AbortError", "gone"]);
});

test("fetch rejects with the loss itself", async () => {
  const server = createServer(() => {}).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  const { failed } = await lose("client.using", (signal) =>
    fetch(`http://127.0.0.1:${port}`, { signal }),
  );
  assert.ok(failed instanceof LockLost, String(failed));
  server.closeAllConnections();
  server.close();
});
