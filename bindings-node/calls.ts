/** Promises of what the native part answers. */

import { InvalidOption, type LockError, toError } from "./errors.js";
import { Failed, type Receiver, slotFor, vacate } from "./pending.js";
import { abandonCall } from "./runtime.js";
import { warn } from "./warnings.js";

/** Starts a call for a slot, which it gives; the receiver hears the outcome. */
export function begin(call: (slot: number) => void, receiver: Receiver): number {
  const slot = slotFor(receiver);
  try {
    call(slot);
  } catch (thrown) {
    vacate(slot);
    throw thrown;
  }
  return slot;
}

/** The outcome of a call, to be passed to `unwrap`. */
export function settled(call: (slot: number) => void): Promise<unknown> {
  return new Promise((resolve) => void begin(call, resolve));
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

/** The end of a scope: nodes that cannot be reached are only warned of, and a loss that is `told` is no news. */
export async function endOfScope(
  ending: Promise<unknown>,
  consequence: string,
  told = false,
): Promise<void> {
  try {
    await ending;
  } catch (error) {
    const { kind, message } = error as LockError;
    if (kind === "lost" && told) return;
    if (kind !== "unavailable") throw error;
    warn(`${message}; ${consequence}`, consequence);
  }
}

/** What the native part answers at once; its failures become exceptions. */
export function attempt<T>(ask: () => T): T {
  try {
    return ask();
  } catch (thrown) {
    throw toError(thrown);
  }
}

/** Who hears of a signal's abort: one listener for all, as Node warns of more than ten. */
const hearers = new WeakMap<AbortSignal, Set<() => void>>();

function hearersOf(signal: AbortSignal): Set<() => void> {
  let set = hearers.get(signal);
  if (set === undefined) {
    set = new Set();
    hearers.set(signal, set);
  }
  return set;
}

function abortAll(this: AbortSignal): void {
  for (const hear of [...hearersOf(this)]) hear();
}

/** Signals of other packages than Node's own may have none. */
export function reasonOf(signal: AbortSignal): unknown {
  try {
    return signal.reason ?? new DOMException("This operation was aborted", "AbortError");
  } catch (thrown) {
    // What waits must end, whatever a signal of another package does.
    return thrown;
  }
}

/** Calls `hear` when the signal aborts, until what this returns is called. */
export function listen(signal: AbortSignal, hear: () => void): () => void {
  const set = hearersOf(signal);
  try {
    if (set.size === 0) signal.addEventListener("abort", abortAll);
  } catch (cause) {
    throw new InvalidOption("the signal cannot be listened to: see the cause", { cause });
  }
  set.add(hear);
  return () => {
    set.delete(hear);
    if (set.size > 0) return;
    try {
      signal.removeEventListener("abort", abortAll);
    } catch {
      // A signal of another package threw. The call has ended already, and outcomes are being delivered.
    }
  };
}

/** Aborting the signal cancels the slot's call, and rejects with the signal's reason; until what this returns is called. */
export function cancelOn(
  signal: AbortSignal,
  slot: number,
  reject: (reason: unknown) => void,
): () => void {
  let forget = () => {};
  const cancel = () => {
    forget();
    abandonCall(slot);
    reject(reasonOf(signal));
  };
  try {
    if (signal.aborted) cancel();
    else forget = listen(signal, cancel);
  } catch (thrown) {
    // The call is under way: nobody would have what it brings.
    abandonCall(slot);
    throw thrown;
  }
  return forget;
}
