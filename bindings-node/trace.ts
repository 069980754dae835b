/** What happens to locks, for whoever listens: `node:diagnostics_channel`, and `NODE_DEBUG=redlock`. */

import {
  type Channel,
  channel,
  type TracingChannel,
  tracingChannel,
} from "node:diagnostics_channel";
import { debuglog } from "node:util";
import type { LockLost } from "./errors.js";

/** What the channels `tracing:redlock:...` tell of a call. */
export interface LockCall {
  /** The Redis key; of several names all keys, with commas between. */
  key: string;
  /** What the call gave: the lease of an `acquire`, null where it had none. */
  result?: unknown;
  /** Why it failed. */
  error?: unknown;
}

/** What the channel `redlock:lost` tells. */
export interface LockLoss {
  /** The Redis key. */
  key: string;
  error: LockLost;
}

type Calls = TracingChannel<unknown, LockCall>;

const calls = {
  acquire: tracingChannel<unknown, LockCall>("redlock:acquire"),
  extend: tracingChannel<unknown, LockCall>("redlock:extend"),
  release: tracingChannel<unknown, LockCall>("redlock:release"),
};
const lost: Channel = channel("redlock:lost");

/** Whether somebody listens to calls of this kind. */
export function isHeard(name: keyof typeof calls): boolean {
  const { start, end, asyncStart, asyncEnd, error } = calls[name] as Calls;
  if (start.hasSubscribers || end.hasSubscribers || error.hasSubscribers) return true;
  return asyncStart.hasSubscribers || asyncEnd.hasSubscribers;
}

/** Runs a call, and tells whoever listens. */
export function traced<T>(
  name: keyof typeof calls,
  of: { readonly key: string },
  call: () => Promise<T>,
): Promise<T> {
  let key: string;
  try {
    key = of.key;
  } catch {
    // No client could be chosen: the call says so.
    return call();
  }
  return calls[name].tracePromise(call, { key });
}

/** Whether somebody wants to hear of losses. */
export function lossesAreHeard(): boolean {
  return lost.hasSubscribers;
}

/** A lease is lost. */
export function tellOfLoss(key: string, error: LockLost): void {
  if (lost.hasSubscribers) lost.publish({ key, error } satisfies LockLoss);
}

const debug = debuglog("redlock");

/** Lines on stderr, for whoever asked for them by `NODE_DEBUG`. */
function print(): void {
  for (const [name, to] of Object.entries(calls)) {
    const begun = new WeakMap<object, number>();
    const took = (call: object) => Math.round(performance.now() - (begun.get(call) ?? 0));
    to.subscribe({
      start: (call) => void begun.set(call, performance.now()),
      end: () => undefined,
      asyncStart: () => undefined,
      asyncEnd: (call) => {
        const { key, error, result } = call as LockCall;
        const { kind, message } = (error ?? {}) as { kind?: string; message?: string };
        const outcome = error === undefined ? (result === null ? "held by another" : "done") : kind;
        debug(
          "%s %s: %s after %d ms %s",
          name,
          key,
          outcome ?? "failed",
          took(call),
          message ?? "",
        );
      },
      error: () => undefined,
    });
  }
  lost.subscribe((loss) => {
    const { key, error } = loss as LockLoss;
    debug("lost %s: %s", key, error.message);
  });
}

if (debug.enabled) print();
