// node:test with a time limit for every test. A test that hangs fails by name, however it was started.
import * as runner from "node:test";

export { afterEach, beforeEach } from "node:test";

/** Milliseconds. */
const LIMIT = Number(process.env.REDLOCK_TEST_PATIENCE ?? 90_000);

/**
 * An open resource of a hanging test keeps its process alive. The process is ended if no test has ended for this long.
 */
const silence = setTimeout(
  () => {
    console.error("the tests of this file ended, or hung, and the process did not");
    process.exit(1);
  },
  LIMIT + Number(process.env.REDLOCK_TEST_SILENCE ?? 30_000),
).unref();

/** The tests to run: those of the "first" tier, of the "slow" one, or "all". */
const TIER = process.env.REDLOCK_TEST_TIER ?? "first";

/** As in node:test. */
export function test(name, ...rest) {
  if (TIER !== "slow") register(name, ...rest);
}

/** A test of the slow tier, and the reason for the tier. */
export function slow(_reason, name, ...rest) {
  if (TIER !== "first") register(name, ...rest);
}

/** The file's hooks, until its first test or suite is registered. */
let hooks = [];

/**
 * Node.js 20 runs a `before` immediately. In a file without a test of this tier, a server that it starts would keep the
 * process alive.
 */
const hook =
  (add) =>
  (...args) => {
    if (hooks === undefined) add(...args);
    else hooks.push(() => add(...args));
  };
export const before = hook(runner.before);
export const after = hook(runner.after);

function addHooks() {
  const added = hooks ?? [];
  hooks = undefined;
  for (const add of added) add();
}

/** As in node:test. */
export function describe(...args) {
  addHooks();
  runner.describe(...args);
}

function register(name, ...rest) {
  addHooks();
  const [options, body] = typeof rest[0] === "function" ? [{}, rest[0]] : rest;
  const timed = async (context) => {
    try {
      await body(context);
    } finally {
      silence.refresh();
    }
  };
  runner.test(name, { timeout: LIMIT, ...options }, timed);
}
