/** Promises of what the native part answers. */

import { InvalidOption, toError } from "./errors.js";
import { Failed, type Receiver, slotFor, vacate } from "./pending.js";
import { abandonCall } from "./runtime.js";

/** Starts a call for a slot; the receiver hears its outcome. */
export function begin(call: (slot: number) => void, receiver: Receiver): void {
  const slot = slotFor(receiver);
  try {
    call(slot);
  } catch (thrown) {
    vacate(slot);
    throw thrown;
  }
}

/** The outcome of a call, to be passed to `unwrap`. */
export function settled(call: (slot: number) => void): Promise<unknown> {
  return new Promise((resolve) => begin(call, resolve));
}

/** Throws a failure. */
export function unwrap<T>(outcome: unknown): T {
  if (outcome instanceof Failed) throw toError(outcome.failure);
  return outcome as T;
}

/**
 * Rejects with a failure, to resolve another promise with. That one hears of this one two steps from now: only an
 * exception made after that has a stack that shows who awaits it.
 */
export async function failing(outcome: Failed): Promise<never> {
  await undefined;
  await undefined;
  throw toError(outcome.failure);
}

/** What the native part answers at once; its failures become exceptions. */
export function attempt<T>(ask: () => T): T {
  try {
    return ask();
  } catch (thrown) {
    throw toError(thrown);
  }
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

/** Signals of other packages than Node's own may have none. */
export function reasonOf({ reason }: AbortSignal): unknown {
  return reason ?? new DOMException("This operation was aborted", "AbortError");
}

/** Aborting the signal cancels the slot's call, and rejects with the signal's reason; until what this returns is called. */
export function cancelOn(
  signal: AbortSignal,
  slot: number,
  reject: (reason: unknown) => void,
): () => void {
  const set = onAbort(signal);
  const forget = () => {
    set.delete(cancel);
    if (set.size === 0) signal.removeEventListener("abort", abortAll);
  };
  const cancel = () => {
    forget();
    abandonCall(slot);
    reject(reasonOf(signal));
  };
  if (signal.aborted) {
    cancel();
    return () => undefined;
  }
  try {
    if (set.size === 0) signal.addEventListener("abort", abortAll);
  } catch (cause) {
    // The call is under way: nobody would have what it brings.
    abandonCall(slot);
    throw new InvalidOption("acquire(): the signal cannot be listened to: see the cause", {
      cause,
    });
  }
  set.add(cancel);
  return forget;
}
