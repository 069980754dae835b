/** Calls into the native part: each is a number, settled once. */

import { toError } from "./errors.js";
import { type Failure, Runtime } from "./native.js";

/** Warnings of this package carry this code. */
const WARNING = { type: "RedlockWarning", code: "REDLOCK" };

/** A failure on its way to whoever awaits the call; the exception is made there, for its stack. */
class Failed {
  constructor(readonly failure: Failure) {}
}

type Deliver = (outcome: unknown) => void;

const pending = new Map<number, Deliver>();

/** This thread's connection to the background thread. */
export const runtime = new Runtime((batch) => void settle(batch));

/** A moment (ms): calls that continuations make are sent together, but none waits longer for the others. */
const MOMENT = 1;

let late = false;

/** Whether the outcomes now being delivered were picked up more than a moment ago. */
export function delayed(): boolean {
  return late;
}

/**
 * One outcome at a time, each followed by what awaits it (an async function here, then its caller): otherwise the caller
 * of the first lease could block the thread until the second, already checked, has expired.
 */
async function settle(batch: unknown[]): Promise<void> {
  late = false;
  if (batch.length === 2) {
    deliver(batch[0] as number, batch[1]);
    return;
  }
  runtime.gather(true);
  let sent = performance.now();
  for (let at = 0; at < batch.length; at += 2) {
    deliver(batch[at] as number, batch[at + 1]);
    await undefined;
    await undefined;
    const now = performance.now();
    if (now - sent > MOMENT) {
      runtime.gather(true);
      sent = now;
      late = true;
    }
  }
  runtime.gather(false);
}

function deliver(id: number, outcome: unknown): void {
  if (id === 0) {
    warn(outcome as string);
    return;
  }
  const key = Math.abs(id);
  const receiver = pending.get(key);
  pending.delete(key);
  receiver?.(id < 0 ? new Failed(outcome as Failure) : outcome);
}

/** Shows a warning the way Node shows its own. */
export function warn(text: string): void {
  process.emitWarning(text, WARNING);
}

/** Calls `receiver` with what the call comes to. */
export function listen(id: number, receiver: Deliver): void {
  pending.set(id, receiver);
}

/** The call will not be settled: what it came to is nobody's business any more. */
export function forget(id: number): void {
  pending.delete(id);
}

/** The outcome of a call, to be passed to `unwrap`. */
export function settled(id: number): Promise<unknown> {
  return new Promise((resolve) => pending.set(id, resolve));
}

/** The calls that a signal would cancel: one listener for all, as Node warns of more than ten. */
const cancels = new WeakMap<AbortSignal, Set<() => void>>();

function onAbort(signal: AbortSignal): Set<() => void> {
  let set = cancels.get(signal);
  if (set === undefined) {
    set = new Set();
    cancels.set(signal, set);
  }
  return set;
}

function abortAll(this: AbortSignal): void {
  for (const cancel of [...onAbort(this)]) cancel();
}

/** As `settled`; aborting the signal cancels the call, and rejects with the signal's reason. */
export function settledUnless(id: number, signal: AbortSignal): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const set = onAbort(signal);
    const forget = () => {
      set.delete(cancel);
      if (set.size === 0) signal.removeEventListener("abort", abortAll);
    };
    const cancel = () => {
      forget();
      pending.delete(id);
      runtime.cancel(id);
      reject(signal.reason);
    };
    if (set.size === 0) signal.addEventListener("abort", abortAll);
    set.add(cancel);
    pending.set(id, (outcome) => {
      forget();
      resolve(outcome);
    });
  });
}

/** Throws a failure. */
export function unwrap<T>(outcome: unknown): T {
  if (outcome instanceof Failed) throw toError(outcome.failure);
  return outcome as T;
}

/** What the native part answers at once; its failures become exceptions. */
export function attempt<T>(native: () => T): T {
  try {
    return native();
  } catch (thrown) {
    throw toError(thrown);
  }
}
