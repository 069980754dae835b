// node:test, with a time limit of its own for every test: one that hangs fails by name, however it was started.
import { test as unlimited } from "node:test";

export { after, afterEach, before, beforeEach, describe } from "node:test";

/** Milliseconds. */
const LIMIT = Number(process.env.REDLOCK_TEST_PATIENCE ?? 90_000);

/** What a test that hung left open keeps its process: once nothing has ended for so long, that is ended too. */
const silence = setTimeout(
  () => {
    console.error("the tests of this file ended, or hung, and the process did not");
    process.exit(1);
  },
  LIMIT + Number(process.env.REDLOCK_TEST_SILENCE ?? 30_000),
).unref();

/** Whether the tests of the slow tier run, and no others. */
const SLOW = process.env.REDLOCK_TEST_TIER === "slow";

/** As node:test has it. */
export function test(name, ...rest) {
  if (!SLOW) register(name, ...rest);
}

/** A test of the slow tier, and why it is there. */
export function slow(_reason, name, ...rest) {
  if (SLOW) register(name, ...rest);
}

function register(name, ...rest) {
  const [options, body] = typeof rest[0] === "function" ? [{}, rest[0]] : rest;
  const timed = async (context) => {
    try {
      await body(context);
    } finally {
      silence.refresh();
    }
  };
  unlimited(name, { timeout: LIMIT, ...options }, timed);
}
