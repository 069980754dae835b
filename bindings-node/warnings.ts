/** Emits the warnings of this package, and limits how often each is repeated. */

import { nextTick } from "node:process";
import { setTimeout } from "node:timers";
import { weakly } from "./native.js";
import { callback } from "./values.js";

/** The name and code of the warnings. */
const KIND = { name: "RedlockWarning", code: "REDLOCK" };
/** Maximum number of warnings of a kind within `MOMENT`. Others are only counted. */
const MOST = 10;
/** Milliseconds. */
const MOMENT = 1_000;
/** Maximum number of long-hold warnings that are remembered, so that each call site is reported once. */
const PLACES = 1_000;

/** Receives a warning. Its `name` is `RedlockWarning` and its `code` is `REDLOCK`. */
export type WarningListener = (warning: Error & { code: string }) => void;

let listener: WarningListener | null = null;

/**
 * Calls `told` for the warnings of all clients, instead of `process.emitWarning`.
 * @param told The listener. With null, warnings go to `process.emitWarning` again.
 * @throws `InvalidOption` if `told` is not a function or null.
 *
 * @example
 * ```js
 * onWarning((warning) => console.error(warning.message));
 * onWarning(null);
 * ```
 */
export function onWarning(told: WarningListener | null): void {
  listener = told === null ? null : callback(told, "onWarning()");
}

function say(text: string): void {
  const warning = new Error(text) as Error & { code: string };
  // An assignment would throw if the program has frozen `Error.prototype`.
  for (const [name, value] of Object.entries(KIND)) {
    Object.defineProperty(warning, name, {
      value,
      configurable: true,
      enumerable: true,
      writable: true,
    });
  }
  try {
    if (listener === null) process.emitWarning(warning);
    else listener(warning);
  } catch (thrown) {
    throwLater(thrown);
  }
}

/** Rethrows an error of the program's code as an uncaught exception, as `EventTarget` does for its listeners. */
export function throwLater(thrown: unknown): void {
  nextTick(() => {
    throw thrown;
  });
}

/** The warnings of one kind within the current `MOMENT`. */
interface Said {
  count: number;
  last: string;
}

const moment = new Map<string, Said>();

/** Emits a warning, unless its kind has reached the limit. */
export function warn(text: string, kind = text): void {
  const said = moment.get(kind);
  if (said === undefined) {
    if (moment.size === 0) setTimeout(later.call, MOMENT).unref();
    moment.set(kind, { count: 1, last: text });
  } else {
    said.count += 1;
    said.last = text;
    if (said.count > MOST) return;
  }
  say(text);
}

function sumUp(): void {
  const over = [...moment.values()].filter(({ count }) => count > MOST);
  moment.clear();
  recent.clear();
  for (const { count, last } of over) {
    say(`${last} (and ${count - MOST - 1} more such warnings within ${MOMENT / 1000} s)`);
  }
}

/** The timer must not keep this copy of the package alive, which `sumUp` belongs to. */
const later = { sumUp, call: weakly(sumUp) };

const LOST = "lease lost key=";
const LONG = "held for more than ten times its TTL";
/** The long-hold warnings that were already emitted. */
const places = new Set<string>();

/**
 * Emits a warning of core. Skips a loss if the program is notified of it otherwise, and a long hold that was reported
 * before.
 */
export function pass(text: string): void {
  const [message = text] = text.split(/ (?:key|node|nodes)=/, 1);
  if (text.startsWith(LOST)) {
    const at = text.lastIndexOf(" reason=");
    const key = text.slice(LOST.length, at);
    if (told.has(key) || recent.has(key)) return;
  }
  if (message.startsWith(LONG)) {
    if (places.has(message)) return;
    if (places.size < PLACES) places.add(message);
  }
  const [kind = message] = message.split(": ", 1);
  warn(text, kind);
}

/** Number of listeners for the loss of leases, by key. */
const told = new Map<string, number>();
/** Keys whose loss was reported to a listener within the current `MOMENT`. */
const recent = new Set<string>();

/** Registers a listener for the loss of a lease on this key. Call the returned function to remove it. */
export function listens(key: string): (lost: boolean) => void {
  told.set(key, (told.get(key) ?? 0) + 1);
  return (lost) => {
    const left = (told.get(key) ?? 1) - 1;
    if (left === 0) told.delete(key);
    else told.set(key, left);
    if (!lost) return;
    if (moment.size === 0 && recent.size === 0) setTimeout(later.call, MOMENT).unref();
    recent.add(key);
  };
}
