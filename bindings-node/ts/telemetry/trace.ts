/** Publishes lock events on `node:diagnostics_channel`, and prints them with `NODE_DEBUG=redlock`. */

import {
  type Channel,
  channel,
  type TracingChannel,
  tracingChannel,
} from "node:diagnostics_channel";
import { debuglog } from "node:util";
import type { LockLost } from "../errors/errors.js";
import { readTime } from "../platform/clock.js";

/** The message of the channels `tracing:redlock:...`, for one call. */
export interface LockCall {
  /** The Redis key. Several keys are separated by commas. */
  key: string;
  /** The result of the call. For `acquire` this is the lease, or null if it was not acquired. */
  result?: unknown;
  /** The error of the call. */
  error?: unknown;
}

/** The message of the channel `redlock:lost`. */
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
const lossChannel: Channel = channel("redlock:lost");

/** Whether the channel of these calls has subscribers. */
export function hasSubscribers(name: keyof typeof calls): boolean {
  const { start, end, asyncStart, asyncEnd, error } = calls[name] as Calls;
  if (start.hasSubscribers || end.hasSubscribers || error.hasSubscribers) return true;
  return asyncStart.hasSubscribers || asyncEnd.hasSubscribers;
}

/** Runs a call and publishes it on its tracing channel. */
export function traced<T>(
  name: keyof typeof calls,
  lock: { readonly key: string },
  call: () => Promise<T>,
): Promise<T> {
  let key: string;
  try {
    key = lock.key;
  } catch {
    // No client could be chosen. The call reports the error.
    return call();
  }
  return calls[name].tracePromise(call, { key });
}

/** Whether the channel `redlock:lost` has subscribers. */
export function lossHasSubscribers(): boolean {
  return lossChannel.hasSubscribers;
}

/** Publishes the loss of a lease. */
export function publishLoss(key: string, error: LockLost): void {
  if (lossChannel.hasSubscribers) lossChannel.publish({ key, error } satisfies LockLoss);
}

const debug = debuglog("redlock");

/** Prints lines on stderr, if `NODE_DEBUG` requests them. */
function printEvents(): void {
  for (const [name, to] of Object.entries(calls)) {
    const begun = new WeakMap<object, number>();
    const took = (call: object) => Math.round(readTime() - (begun.get(call) ?? 0));
    to.subscribe({
      start: (call) => void begun.set(call, readTime()),
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
  lossChannel.subscribe((loss) => {
    const { key, error } = loss as LockLoss;
    debug("lost %s: %s", key, error.message);
  });
}

if (debug.enabled) printEvents();
