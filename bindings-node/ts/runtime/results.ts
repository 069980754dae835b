/** Promises and exceptions for the results of the native part. */

import { toError } from "../errors/errors.js";
import { Failed, type Receiver, slotFor, vacate } from "./pending.js";

/** Starts a call in a new slot and returns the slot. The receiver gets the outcome. */
export function startCall(call: (slot: number) => void, receiver: Receiver): number {
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
  return new Promise((resolve) => void startCall(call, resolve));
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

/** Runs a synchronous native call and converts its failures to exceptions. */
export function attempt<T>(call: () => T): T {
  try {
    return call();
  } catch (thrown) {
    throw toError(thrown);
  }
}
