// If hooks and globals of the program throw, are frozen or return unexpected values, locks work unchanged.
import assert from "node:assert/strict";
import { Redlock } from "redlock-native";
import { eventually, program, uniqueName } from "./helper.mjs";
import { describe, test } from "./testing.mjs";

const UNKNOWN = /^an unknown line \(hidden by Error\.prepareStackTrace\)/;
const KNOWN = /hooks\.mjs:\d+:\d+/;

/** What the program does, and which line its errors have. */
const HOOKS = {
  none: KNOWN,
  callSites: KNOWN,
  throws: UNKNOWN,
  nothing: UNKNOWN,
  symbol: UNKNOWN,
  noLimit: KNOWN,
  deletedLimit: KNOWN,
  refusedLimit: KNOWN,
  noCapture: UNKNOWN,
  frozenError: KNOWN,
  frozen: KNOWN,
  emitWarning: KNOWN,
  stderr: KNOWN,
};
/** The hooks whose exceptions become uncaught ones, like those of listeners. */
const THROWN = { emitWarning: ["from emitWarning"], stderr: ["from stderr"] };

async function check(how, line, flags) {
  const env = how === "stderr" ? { NODE_DEBUG: "redlock" } : {};
  const { code, stderr, lines } = await program("hooks", [how], { flags, env });
  assert.equal(code, 0, stderr);
  const found = JSON.parse(lines.at(-1));
  assert.deepEqual([found.used, found.held, found.changed], ["used", true, false]);
  assert.deepEqual([found.refused.name, found.refused.kind], ["LockTimeout", "timeout"]);
  assert.match(found.refused.acquiredAt, line);
  assert.equal(found.invalid.kind, "invalid");
  assert.equal(found.reason.name, "LockLost");
  assert.equal(found.stats.lost.missing, 2);
  assert.deepEqual([...new Set(found.thrown)], THROWN[how] ?? []);
  if (how === "emitWarning") return;
  assert.deepEqual([found.warnings[0].name, found.warnings[0].code], ["RedlockWarning", "REDLOCK"]);
  assert.match(found.warnings[0].message, /lease lost key=lock:warned/);
}

describe("survives a program's hook or changed global:", { concurrency: 4 }, () => {
  for (const [how, line] of Object.entries(HOOKS)) test(how, () => check(how, line, []));
  test("--frozen-intrinsics", () => check("none", KNOWN, ["--frozen-intrinsics", "--no-warnings"]));
});

describe("a foreign signal that throws", () => {
  const foreignSignal = (parts) => ({
    aborted: false,
    addEventListener: () => undefined,
    removeEventListener: () => undefined,
    ...parts,
  });
  const fail = () => {
    throw new Error("from the signal");
  };

  test("in removeEventListener does not affect other outcomes", async () => {
    const client = new Redlock(`memory://${uniqueName()}`);
    const signal = foreignSignal({ removeEventListener: fail });
    const acquiring = Array.from({ length: 8 }, () =>
      client.lock(uniqueName()).acquire({ signal }),
    );
    const leases = await Promise.all(acquiring);
    await Promise.all(leases.map((lease) => lease.release()));
    assert.equal(client.stats().released, 8);
  });

  test("when its reason is read ends the call and leaves no key", async () => {
    const client = new Redlock(`memory://${uniqueName()}`);
    const lock = client.lock(uniqueName());
    const lease = await lock.acquire();
    const target = new EventTarget();
    const signal = Object.defineProperty(target, "reason", { get: fail });
    Object.assign(signal, { aborted: false });
    const waiting = lock.acquire({ signal });
    signal.dispatchEvent(new Event("abort"));
    await assert.rejects(waiting, { message: "from the signal" });
    await lease.release();
    await (await lock.tryAcquire()).release();
  });

  test("when aborted is read after the start leaves no key", async () => {
    const client = new Redlock(`memory://${uniqueName()}`);
    const lock = client.lock(uniqueName());
    let asked = 0;
    const signal = Object.defineProperty(foreignSignal({}), "aborted", {
      get() {
        asked += 1;
        if (asked > 2) fail();
        return false;
      },
    });
    await assert.rejects(lock.acquire({ signal }), { message: "from the signal" });
    await eventually(async () => {
      const lease = await lock.tryAcquire();
      assert.ok(lease);
      await lease.release();
    });
  });
});

test("a credentials function that throws an unreadable value fails the connection", async () => {
  const unreadable = Object.create(Error.prototype, { constructor: { value: null } });
  const credentials = () => {
    throw unreadable;
  };
  const client = new Redlock("redis://127.0.0.1:1", { credentials });
  const failed = await client
    .lock(uniqueName(), { wait: 0, nodeTimeout: 60_000, ttl: 300_000 })
    .acquire()
    .catch((error) => error);
  assert.equal(failed.kind, "unavailable");
});
