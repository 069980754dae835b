/**
 * Exchanges calls and their outcomes with the native binary. Each call is sent at once, except that those made while
 * outcomes are delivered are sent together.
 */

import { outsideAsyncContext } from "./async-context.js";
import {
  CALLS,
  calls,
  copyOutcomes,
  FAILURE,
  Grant,
  keepReleases,
  leasesIn,
  type Names,
  outcomes,
  readGrant,
  writeCall,
} from "./batch.js";
import { callAddressMap, callCredentials } from "./callbacks.js";
import { readTime } from "./clock.js";
import { publishEvent, wantedTopics } from "./events.js";
import {
  ACQUIRE,
  ADDRESS_MAP,
  type CoreEvent,
  CREDENTIALS,
  EVENT,
  type Failure,
  LOSS,
  OUTCOME_COLUMNS,
  RELEASE,
  Runtime,
  WARNING,
  weakly,
} from "./native.js";
import { deliver, Failed, type Receiver, replaceReceiver, slotFor, vacate } from "./pending.js";
import { emitCoreWarning, throwLater } from "./warnings.js";

// docs/contributing/speed.md has the measurements.
/** Number of calls to send before all are recorded, so that the servers work while JavaScript continues. */
const SEND_THRESHOLD = CALLS / 8;

/** Number of calls that are recorded but not sent. */
let unsent = 0;
/** The lock names of recorded acquires, by row of `calls`. */
const names: (Names | undefined)[] = new Array(CALLS).fill(undefined);
/** Whether outcomes are being delivered. Their callers will probably make more calls, which are then sent together. */
let batching = false;
/** The outcomes that are being delivered, and where those begin that their callers have not received. */
let delivering: Float64Array | undefined;
let nextRow = 0;

/** Calls and outcomes pass through these arrays, whose memory the native part reads and writes. */
const arrays = { calls, outcomes };
const settleCallback = Object.assign(
  (rows: number, sideValues?: unknown[]) => settle(rows, sideValues),
  arrays,
);

/**
 * The connection to the native part. Use `native()` to query leases.
 *
 * Only JavaScript holds it. While no call is pending it holds no JavaScript object strongly, so an unused copy of the
 * package can be collected. The arrays are attached to the objects that call the native part or that it calls, which
 * keeps them alive during a call.
 */
const runtime = Object.assign(
  outsideAsyncContext(() => new Runtime(calls, outcomes, settleCallback)),
  arrays,
  { settleCallback },
);

/** Sends this number of recorded calls to the native part. */
const sendRows = runtime.sender();

/** Whether the exit hook is registered. */
let hooked = false;

/** Registers the exit hook. The process does not keep this copy of the package alive by it. */
function hookExit(): void {
  hooked = true;
  // It takes the place of no listener of the program, above whose number Node.js warns.
  const limit = process.getMaxListeners();
  if (limit > 0) process.setMaxListeners(limit + 1);
  process.on("exit", weakly(endAtExit));
}

/** Returns the native part, after sending all recorded calls. */
export function native(): Runtime {
  if (!hooked) hookExit();
  send();
  return runtime;
}

/** The topics that the native part currently reports. */
let topics = 0;

/** Requests the topics that have subscribers. A new subscriber gets the events from the next call on. */
function updateTopics(): void {
  const wanted = wantedTopics();
  if (wanted === topics) return;
  topics = wanted;
  runtime.wantEvents(wanted);
}

function send(): void {
  updateTopics();
  if (unsent === 0) return;
  const rows = unsent;
  unsent = 0;
  sendRows(rows, rows === 1 ? names[0] : names);
  for (let row = 0; row < rows; row += 1) names[row] = undefined;
}

/**
 * Sends the recorded releases, and cancels everything else, if the program ends the process. A caller that will never
 * receive its lease must leave no key. The end of the process is delayed briefly for the deletes.
 */
function endAtExit(): void {
  batching = false;
  unsent = keepReleases(unsent);
  const rest = delivering?.subarray(nextRow) ?? [];
  // Not those of `attach`, whose keys belong to another holder.
  const acquired = leasesIn(rest).filter((lease) => runtime.isAcquired(lease));
  for (const lease of acquired) release(lease, () => undefined);
  send();
  runtime.cancelAll();
}

function recordCall(
  operation: number,
  target: number,
  argument: number,
  receiver: Receiver,
  nativeNames?: Names,
): number {
  const slot = slotFor(receiver);
  writeCall(unsent, operation, target, slot, argument);
  names[unsent] = nativeNames;
  unsent += 1;
  if (!batching || unsent === SEND_THRESHOLD) send();
  return slot;
}

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
 * delivered the outcome. It only checks again if that was more than `MAX_DELAY` ago.
 */
export function acquireAgain({ id }: Grant, receiver: Receiver): number | undefined {
  if (!late) return undefined;
  const slot = slotFor(receiver);
  if (native().acquireAgain(slot, id)) return slot;
  vacate(slot);
  return undefined;
}

/** Releases the lease with this number. */
export function release(lease: number, receiver: Receiver): void {
  recordCall(RELEASE, lease, 0, receiver);
}

/** Cancels the slot's call. If its outcome is already being delivered, the lease in it is released. */
export function abandonCall(slot: number): void {
  if (native().cancel(slot)) {
    vacate(slot);
    return;
  }
  // The outcome is in the batch that is being delivered. The caller of an earlier outcome cancelled this call.
  replaceReceiver(slot, (outcome) => {
    if (outcome instanceof Grant) release(outcome.id, () => undefined);
  });
}

/**
 * Maximum delay of recorded calls, in ms. Calls of continuations are sent together, but none waits longer for others.
 */
const MAX_DELAY = 1;

/** Whether the outcomes that are being delivered were read more than `MAX_DELAY` ago. */
let late = false;
let time = 0;

/** Returns the time in ms. While outcomes are delivered, this is the last time that was read. */
export function now(): number {
  return batching ? time : readTime();
}

/** A batch in which no outcome needs more than numbers. */
const NO_VALUES: unknown[] = [];

/** Delivers outcomes. A single one is delivered synchronously, so its awaiting caller continues when this returns. */
function settle(rows: number, sideValues = NO_VALUES): void {
  late = false;
  if (rows === 1) settleOne(outcomes, 0, sideValues);
  else void settleAll(copyOutcomes(rows), sideValues);
}

/** Delivers the outcome in the row at `at`. An exception of the program's code does not affect other rows. */
function settleOne(batch: Float64Array, at: number, sideValues: unknown[]): void {
  try {
    settleRow(batch, at, sideValues);
  } catch (thrown) {
    throwLater(thrown);
  }
}

/** Delivers one row. If it has a side value, that is the first of `sideValues`, which this removes. */
function settleRow(batch: Float64Array, at: number, sideValues: unknown[]): void {
  const slot = batch[at] as number;
  const value = batch[at + 1] as number;
  if (slot < 0) deliverEvent(slot, value, sideValues.shift());
  else if (value === FAILURE) deliver(slot, new Failed(sideValues.shift() as Failure));
  else if (Number.isNaN(value)) deliver(slot, sideValues.shift());
  else deliver(slot, value === 0 ? undefined : readGrant(batch, at));
}

/**
 * Delivers one outcome at a time, and lets its awaiting caller run before the next. Otherwise the caller of the first
 * lease could block the thread until the second one, which was already checked, has expired.
 */
async function settleAll(batch: Float64Array, sideValues: unknown[]): Promise<void> {
  try {
    delivering = batch;
    batching = true;
    time = readTime();
    let sent = time;
    for (let at = 0; at < batch.length; at += OUTCOME_COLUMNS) {
      nextRow = at + OUTCOME_COLUMNS;
      settleOne(batch, at, sideValues);
      await undefined;
      time = readTime();
      if (time - sent > MAX_DELAY) {
        send();
        sent = time;
        late = true;
      }
    }
  } finally {
    delivering = undefined;
    batching = false;
    send();
  }
}

/** The callbacks for the loss of a lease, by number. */
const losses = new Map<number, (failure: Failure) => void>();

function deliverEvent(kind: number, value: number, payload: unknown): void {
  if (kind === CREDENTIALS) {
    void callCredentials(value).then((result) =>
      runtime.returnCredentials(payload as number, ...result),
    );
    return;
  }
  if (kind === ADDRESS_MAP) {
    const [request, host, port] = payload as [number, string, number];
    void callAddressMap(value, host, port).then((result) =>
      runtime.returnAddress(request, ...result),
    );
    return;
  }
  if (kind === EVENT) {
    publishEvent(payload as CoreEvent);
    updateTopics();
    return;
  }
  if (kind === WARNING) {
    emitCoreWarning(payload as string);
    return;
  }
  if (kind === LOSS) deliverLoss(value, payload as Failure);
}

function deliverLoss(lease: number, failure: Failure): void {
  const listener = losses.get(lease);
  losses.delete(lease);
  listener?.(failure);
}

/** Calls `listener` once if the lease with this number is lost. Returns false if it has already ended. */
export function watch(lease: number, listener: (failure: Failure) => void): boolean {
  if (!native().leaseWatch(lease)) return false;
  losses.set(lease, listener);
  return true;
}

/** Removes the callback of a lease that has ended without a loss. */
export function unwatch(lease: number): void {
  losses.delete(lease);
}
