/**
 * Records calls and sends them to the native part. Each call is sent at once, except that those made while outcomes are
 * delivered are sent together.
 */

import type { Operation } from "../native.js";
import { wantedEvents } from "../telemetry/events.js";
import { runtime } from "./connection.js";
import { type Receiver, slotFor } from "./pending.js";
import { keepReleases, MAX_CALLS, type Names, writeCall } from "./rows.js";

/** Number of calls that are recorded but not sent. */
let unsent = 0;
/** The lock names of recorded acquires, by row of `calls`. */
const names: (Names | undefined)[] = new Array(MAX_CALLS).fill(undefined);
/** Whether calls are recorded first and then sent together. */
let batching = false;

/** Sends this number of recorded calls to the native part. */
const sendRows = runtime.sender();

/** The bits of the events that the native part currently reports. */
let reported = 0;

/** Requests the events that have subscribers. A new subscriber gets the events from the next call on. */
export function requestEvents(): void {
  const wanted = wantedEvents();
  if (wanted === reported) return;
  reported = wanted;
  runtime.wantEvents(wanted);
}

/** Sends the recorded calls. */
export function send(): void {
  requestEvents();
  if (unsent === 0) return;
  const rows = unsent;
  unsent = 0;
  sendRows(rows, rows === 1 ? names[0] : names);
  for (let row = 0; row < rows; row += 1) names[row] = undefined;
}

/** Begins to record calls until `send` or `stopBatching`. */
export function startBatching(): void {
  batching = true;
}

/** Sends each call at once again. */
export function stopBatching(): void {
  batching = false;
}

/** Whether calls are recorded first. */
export const isBatching = (): boolean => batching;

/** Removes the recorded calls that are not releases. */
export function dropUnsentAcquires(): void {
  unsent = keepReleases(unsent);
}

/** Records a call, and sends it unless calls are sent together. Returns its slot. */
export function recordCall(
  operation: Operation,
  target: number,
  argument: number,
  receiver: Receiver,
  nativeNames?: Names,
): number {
  const slot = slotFor(receiver);
  writeCall(unsent, operation, target, slot, argument);
  names[unsent] = nativeNames;
  unsent += 1;
  if (!batching || unsent === MAX_CALLS) send();
  return slot;
}
