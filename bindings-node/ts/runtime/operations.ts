/** The operations that cross into the native part as rows: acquire and release. */

import { Operation } from "../native.js";
import { runtime } from "./connection.js";
import { isLate } from "./delivery.js";
import { type Receiver, replaceReceiver, slotFor, vacate } from "./pending.js";
import { Grant, type Names } from "./rows.js";
import { recordCall, send } from "./sender.js";

const { Acquire: ACQUIRE, Release: RELEASE } = Operation;

/** Acquires the lock on these names with the option set of this number. The receiver gets a `Grant` or `Failed`. */
export function acquire(
  optionSet: number,
  nativeNames: Names,
  wait: number | undefined,
  receiver: Receiver,
): number {
  return recordCall(ACQUIRE, optionSet, wait ?? Number.NaN, receiver, nativeNames);
}

/**
 * Repeats an acquire whose lease ended before its caller could run, for example because the thread was blocked.
 *
 * Returns the slot of the new call, or undefined if the lease is still held. The native part checked the lease when it
 * delivered the outcome, and only checks it again if that was a while ago.
 */
export function acquireAgain({ id }: Grant, receiver: Receiver): number | undefined {
  if (!isLate()) return undefined;
  const slot = slotFor(receiver);
  send();
  if (runtime.acquireAgain(slot, id)) return slot;
  vacate(slot);
  return undefined;
}

/** Releases the lease with this number, after a body that `completed` with success or not. */
export function release(lease: number, receiver: Receiver, completed = false): void {
  recordCall(RELEASE, lease, completed ? 1 : Number.NaN, receiver);
}

/** Cancels the slot's call. If its outcome is already being delivered, the lease in it is released. */
export function abandonCall(slot: number): void {
  send();
  if (runtime.cancel(slot)) {
    vacate(slot);
    return;
  }
  // The outcome is in the batch that is being delivered. The caller of an earlier outcome cancelled this call.
  replaceReceiver(slot, (outcome) => {
    if (outcome instanceof Grant) release(outcome.id, () => undefined);
  });
}
