// A test of the program may replace the clock and the timers of Node.js after it loaded the package.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { test } from "./testing.mjs";

const run = promisify(execFile);
const cwd = fileURLToPath(new URL(".", import.meta.url));

/** Runs a program with this replacement. It has a client, the real clock, and functions for its use. */
async function output(replacement, body) {
  const program = `
    import { performance as real } from "node:perf_hooks";
    import { Redlock } from "redlock-native";
    const now = real.now.bind(real);
    const block = (ms) => { for (const end = now() + ms; now() < end; ); };
    const redlock = new Redlock("memory://");
    const replace = (name, value) => Object.defineProperty(globalThis, name, { value });
    ${replacement}
    ${body}`;
  const words = ["--input-type=module", "-e", program];
  // The limit ends a process that hangs.
  const limit = { timeout: 20_000, killSignal: "SIGKILL" };
  return (await run(process.execPath, words, { cwd, ...limit })).stdout;
}

/** Three callers whose leases arrive together. Each blocks the thread for longer than the leases last. */
const batch = `
  const held = [];
  const call = async (name) => {
    const lease = await redlock.lock(name, { ttl: 150, renew: false }).acquire();
    held.push(lease.held);
    block(200);
  };
  await Promise.all(["a", "b", "c"].map(call));
  console.log(JSON.stringify(held));`;

for (const [about, now] of [
  ["stands still", "() => 0"],
  ["throws", '() => { throw new Error("replaced"); }'],
]) {
  test(`no expired lease is returned while the global clock ${about}`, async () => {
    const replacement = `replace("performance", { now: ${now} });`;
    assert.equal(await output(replacement, batch), "[true,true,true]\n");
  });
}

test("an error of a callback is thrown while process.nextTick is replaced", async () => {
  const body = `
    process.on("uncaughtException", ({ message }) => process.exit(message === "theirs" ? 0 : 2));
    const lease = await redlock.lock("job").acquire();
    lease.onLost(() => { throw new Error("theirs"); });
    redlock.close();
    setInterval(() => undefined, 1000);`;
  await output("process.nextTick = () => undefined;", body);
});

test("a callback for an earlier loss runs while queueMicrotask is replaced", async () => {
  const body = `
    const lease = await redlock.lock("job").acquire();
    redlock.close();
    lease.onLost(() => process.exit(0));
    setInterval(() => undefined, 1000);`;
  await output('replace("queueMicrotask", () => undefined);', body);
});
