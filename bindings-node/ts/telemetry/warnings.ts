/** Emits the warnings of this package, and limits how often each is repeated. */

import { shown, weakly } from "../native.js";
import { checkCallback } from "../options/values.js";
import { nextTick, setTimeout } from "../platform/clock.js";
import { ProgramListener } from "./listeners.js";
import { fillTemplate, type LogEvent, type LogTopic, logOwnEvent, logsWarnings } from "./log.js";
import { createWarning, emitProcessWarning } from "./process-warning.js";

/** Maximum number of warnings of a kind within `PERIOD`. Others are only counted. */
const MAX_PER_KIND = 10;
/** Milliseconds. */
const PERIOD = 1_000;
/** Maximum number of long-hold warnings that are remembered, so that each call site is reported once. */
const MAX_CALL_SITES = 1_000;

/** Receives a warning. Its `name` is `RedlockWarning` and its `code` is `REDLOCK`. */
export type WarningListener = (warning: Error & { code: string }) => void;

let activeListener: ProgramListener<ReturnType<typeof createWarning>> | null = null;

/**
 * Calls `listener` for the warnings of all clients, instead of `process.emitWarning`.
 *
 * If the listener throws, or is async and rejects, the error is reported by a process warning.
 * @param listener The function to call. With null, warnings go to `process.emitWarning` again.
 * @throws `InvalidOption` if `listener` is not a function or null.
 *
 * @example
 * ```js
 * onWarning((warning) => console.error(warning.message));
 * onWarning(null);
 * ```
 */
export function onWarning(listener: WarningListener | null): void {
  const call = "onWarning()";
  activeListener =
    listener === null ? null : new ProgramListener(checkCallback(listener, call), call);
}

function emit(text: string): void {
  try {
    // The log has every warning, so a program that reads it needs no other ones.
    if (activeListener !== null) activeListener.call(createWarning(text));
    else if (!logsWarnings()) emitProcessWarning(text);
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

/** The warnings of one kind within the current `PERIOD`. */
interface WarningCount {
  count: number;
  last: string;
}

const counts = new Map<string, WarningCount>();

/** Logs a warning of this package, and emits it. Names in braces stand for fields. */
export function warnOwn(
  topic: LogTopic,
  template: string,
  fields: LogEvent["fields"],
  kind = template,
): void {
  logOwnEvent("warn", topic, template, fields);
  warn(fillTemplate(template, fields), kind);
}

/** Emits a warning, unless its kind has reached the limit. */
export function warn(text: string, kind = text): void {
  const current = counts.get(kind);
  if (current === undefined) {
    if (counts.size === 0) setTimeout(later.call, PERIOD).unref();
    counts.set(kind, { count: 1, last: text });
  } else {
    current.count += 1;
    current.last = text;
    if (current.count > MAX_PER_KIND) return;
  }
  emit(text);
}

function emitSummary(): void {
  const limited = [...counts.values()].filter(({ count }) => count > MAX_PER_KIND);
  counts.clear();
  reportedLosses.clear();
  for (const { count, last } of limited) {
    emit(`${last} (and ${count - MAX_PER_KIND - 1} more such warnings within ${PERIOD / 1000} s)`);
  }
}

/** The timer must not keep this copy of the package alive, which `emitSummary` belongs to. */
const later = { emitSummary, call: weakly(emitSummary) };

const LOST = "lease lost key=";
const LONG = "held for more than ten times its TTL";
/** The long-hold warnings that were already emitted. */
const reportedHolds = new Set<string>();

/**
 * Emits a warning of core. Skips a loss if the program is notified of it otherwise, and a long hold that was reported
 * before.
 */
export function emitCoreWarning(text: string): void {
  const [message = text] = text.split(/ (?:key|node|nodes)=/, 1);
  if (text.startsWith(LOST)) {
    const at = text.lastIndexOf(" reason=");
    const key = text.slice(LOST.length, at);
    if (lossListeners.has(key) || reportedLosses.has(key)) return;
  }
  if (message.startsWith(LONG)) {
    if (reportedHolds.has(message)) return;
    if (reportedHolds.size < MAX_CALL_SITES) reportedHolds.add(message);
  }
  const [kind = message] = message.split(": ", 1);
  warn(text, kind);
}

/** Number of listeners for the loss of leases, by key as `shown` writes it in warnings. */
const lossListeners = new Map<string, number>();
/** Keys whose loss was reported to a listener within the current `PERIOD`. */
const reportedLosses = new Set<string>();

/** Registers a listener for the loss of a lease on this key. Call the returned function to remove it. */
export function addLossListener(exactKey: string): (lost: boolean) => void {
  // A cut key could be that of another lock, whose warning would be missing.
  const shownKey = shown(exactKey);
  const key = shownKey.includes("…") ? exactKey : shownKey;
  lossListeners.set(key, (lossListeners.get(key) ?? 0) + 1);
  return (lost) => {
    const left = (lossListeners.get(key) ?? 1) - 1;
    if (left === 0) lossListeners.delete(key);
    else lossListeners.set(key, left);
    if (!lost) return;
    if (counts.size === 0 && reportedLosses.size === 0) setTimeout(later.call, PERIOD).unref();
    reportedLosses.add(key);
  };
}
