/** What this package has to say beside its errors: where it goes, and what of it is said once, or not at all. */

import { nextTick } from "node:process";
import { setTimeout } from "node:timers";
import { weakly } from "./native.js";
import { callback } from "./values.js";

/** Warnings of this package carry this code. */
const KIND = { name: "RedlockWarning", code: "REDLOCK" };
/** How many of a kind are said within a moment; the others are counted. */
const MOST = 10;
/** Milliseconds. */
const MOMENT = 1_000;
/** Of so many places at most it is remembered that they were warned of. */
const PLACES = 1_000;

/** What is told of a warning: its `name` is `RedlockWarning`, its `code` `REDLOCK`. */
export type WarningListener = (warning: Error & { code: string }) => void;

let listener: WarningListener | null = null;

/**
 * Has `told` hear this package's warnings, of all clients, instead of `process.emitWarning`; null: as before. Throws
 * `InvalidOption` for what is no function.
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
  // An assignment would throw where a program has frozen `Error.prototype`.
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

/** Throws what the program's own code threw as an uncaught exception, as an `EventTarget` does for its listeners. */
export function throwLater(thrown: unknown): void {
  nextTick(() => {
    throw thrown;
  });
}

/** Of a kind, within the moment that it began in. */
interface Said {
  count: number;
  last: string;
}

const moment = new Map<string, Said>();

/** Warns, unless there is enough of the kind already. */
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
    say(`${last}; and ${count - MOST - 1} more such warnings within ${MOMENT / 1000} s`);
  }
}

/** A timer must not keep this copy of the package, which holds `sumUp` itself. */
const later = { sumUp, call: weakly(sumUp) };

const LOST = "lease lost key=";
const LONG = "held for more than ten times its ttl";
/** What was said of places. */
const places = new Set<string>();

/** Warns of what core says: a loss that the program is told of anyway is not said, a long hold once for each place. */
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

/** How many listen for the loss of leases on these keys. */
const told = new Map<string, number>();
/** On which a loss was told within the moment. */
const recent = new Set<string>();

/** Somebody listens for the loss of a lease on this key, until what this returns is called. */
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
