/** Cancels calls when a signal of the program aborts. */

import { InvalidOption } from "../errors/errors.js";
import { abandonCall } from "./operations.js";

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
