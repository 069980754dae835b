/** Promises and exceptions for the results of the native part. */

import { InvalidOption, type LockError, toError } from "./errors.js";
import { Failed, type Receiver, slotFor, vacate } from "./pending.js";
import { abandonCall } from "./runtime.js";
import { warn } from "./warnings.js";

/** Starts a call in a new slot and returns the slot. The receiver gets the outcome. */
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

/** Starts a call and returns its outcome, which the caller passes to `unwrap`. */
export function settled(call: (slot: number) => void): Promise<unknown> {
  return new Promise((resolve) => void begin(call, resolve));
}

/** Returns the outcome, or throws the exception for a failure. */
export function unwrap<T>(outcome: unknown): T {
  if (outcome instanceof Failed) throw toError(outcome.failure);
  return outcome as T;
}

/**
 * Returns a promise that rejects with the failure, to resolve another promise with.
 *
 * The other promise adopts this one two microtasks later. Only an exception that is created after that has a stack that
 * shows the awaiting caller.
 */
export async function failing(outcome: Failed): Promise<never> {
  await undefined;
  await undefined;
  throw toError(outcome.failure);
}

/**
 * Awaits the release at the end of a scope. Unreachable nodes only cause a warning.
 *
 * `alreadyThrown` means that the program already got the error of the loss. It is then not thrown again.
 */
export async function awaitScopeEnd(
  ending: Promise<unknown>,
  consequence: string,
  alreadyThrown = false,
): Promise<void> {
  try {
    await ending;
  } catch (error) {
    const { kind, message } = error as LockError;
    if (kind === "lost" && alreadyThrown) return;
    if (kind !== "unavailable") throw error;
    warn(`${message}. ${consequence}`, consequence);
  }
}

/** Runs a synchronous native call and converts its failures to exceptions. */
export function attempt<T>(call: () => T): T {
  try {
    return call();
  } catch (thrown) {
    throw toError(thrown);
  }
}

/** The abort callbacks of one signal. */
interface AbortListeners {
  readonly callbacks: Set<() => void>;
  /** Calls them. */
  readonly abortAll: () => void;
}

/** Those of each signal. They share one event listener, because Node.js warns about more than ten. */
const abortListeners = new WeakMap<AbortSignal, AbortListeners>();

function listenersOf(signal: AbortSignal): AbortListeners {
  let listeners = abortListeners.get(signal);
  if (listeners === undefined) {
    const callbacks = new Set<() => void>();
    // A signal of another package may call it without `this`.
    const abortAll = () => {
      for (const callback of [...callbacks]) callback();
    };
    listeners = { callbacks, abortAll };
    abortListeners.set(signal, listeners);
  }
  return listeners;
}

/** Returns the reason of an aborted signal. Signal classes of other packages may have none. */
export function reasonOf(signal: AbortSignal): unknown {
  try {
    return signal.reason ?? new DOMException("This operation was aborted", "AbortError");
  } catch (thrown) {
    // The waiting call must end, even if the signal of another package throws.
    return thrown;
  }
}

/** Registers a callback for the abort of the signal. The returned function removes it. */
export function listen(signal: AbortSignal, listener: () => void): () => void {
  const { callbacks, abortAll } = listenersOf(signal);
  try {
    if (callbacks.size === 0) signal.addEventListener("abort", abortAll);
  } catch (cause) {
    throw new InvalidOption("cannot listen to the signal (see the cause of this error)", { cause });
  }
  callbacks.add(listener);
  return () => {
    callbacks.delete(listener);
    if (callbacks.size > 0) return;
    try {
      signal.removeEventListener("abort", abortAll);
    } catch {
      // A signal of another package threw. The call has already ended and other outcomes still have to be delivered.
    }
  };
}

/**
 * Cancels the slot's call when the signal aborts, and rejects with the signal's reason. The returned function removes
 * the listener.
 */
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
    // The call has started and no caller would receive its lease.
    abandonCall(slot);
    throw thrown;
  }
  return forget;
}
