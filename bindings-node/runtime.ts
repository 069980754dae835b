/**
 * Exchanges calls and outcomes with the native part. Sends calls in batches and delivers outcomes one after the other.
 */

import {
  CALLS,
  calls,
  copyOutcomes,
  FAILURE,
  Grant,
  type Names,
  outcomes,
  readGrant,
  writeCall,
} from "./batch.js";
import { asked } from "./credentials.js";
import {
  ACQUIRE,
  CREDENTIALS,
  type Failure,
  OUTCOME_COLUMNS,
  RELEASE,
  Runtime,
  STEP,
  type Step,
  WARNING,
} from "./native.js";
import { outside } from "./outside.js";
import { deliver, Failed, hearInstead, type Receiver, slotFor, vacate } from "./pending.js";
import { tellOfStep, wantedSteps } from "./steps.js";
import { pass, throwLater } from "./warnings.js";

/**
 * Number of calls to send before all are recorded, so that the servers work while JavaScript continues. docs/contributing/speed.md
 * has the measurements.
 */
const ENOUGH = CALLS / 8;

/** Number of calls that are recorded but not sent. */
let unsent = 0;
/** The names of the locks to acquire, by row. */
const names: (Names | undefined)[] = new Array(CALLS).fill(undefined);
/** Whether to collect calls and send them together, because more are expected. */
let gathering = false;

/** Calls and outcomes pass through these arrays, whose memory the native part reads and writes. */
const arrays = { calls, outcomes };
const hear = Object.assign((rows: number, beside?: unknown[]) => settle(rows, beside), arrays);

/**
 * The connection to the native part. Use `native()` to query leases.
 *
 * Only JavaScript holds it. While no call is pending it holds no JavaScript object strongly, so an unused copy of the
 * package can be collected. The arrays are attached to the objects that call the native part or that it calls, which
 * keeps them alive during a call.
 */
const runtime = Object.assign(
  outside(() => new Runtime(calls, outcomes, hear)),
  arrays,
  { hear },
);

/** Sends this number of recorded calls to the native part. */
const tell = runtime.sender();

/** Returns the native part, after sending all recorded calls. */
export function native(): Runtime {
  send();
  return runtime;
}

/** The topics that the native part currently reports. */
let steps = 0;

/** Requests the topics that have subscribers. A new subscriber gets the events from the next call on. */
function look(): void {
  const wanted = wantedSteps();
  if (wanted === steps) return;
  steps = wanted;
  runtime.wantSteps(wanted);
}

function send(): void {
  look();
  if (unsent === 0) return;
  const rows = unsent;
  unsent = 0;
  tell(rows, rows === 1 ? names[0] : names);
  for (let row = 0; row < rows; row += 1) names[row] = undefined;
}

function write(
  operation: number,
  of: number,
  argument: number,
  receiver: Receiver,
  named?: Names,
): number {
  const slot = slotFor(receiver);
  writeCall(unsent, operation, of, slot, argument);
  names[unsent] = named;
  unsent += 1;
  if (!gathering || unsent === ENOUGH) send();
  return slot;
}

/** Acquires the lock on these names with the option set of this number. The receiver gets a `Grant` or `Failed`. */
export function acquire(
  set: number,
  named: Names,
  wait: number | undefined,
  receiver: Receiver,
): number {
  return write(ACQUIRE, set, wait ?? Number.NaN, receiver, named);
}

/**
 * Repeats an acquire whose lease ended before its caller could run, for example because the thread was blocked.
 *
 * Returns the slot of the new call, or undefined if the lease is still held. The native part checked the lease when it
 * delivered the outcome. It only checks again if that was more than `MOMENT` ago.
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
  write(RELEASE, lease, 0, receiver);
}

/** Cancels the slot's call. If its outcome is already being delivered, the lease in it is released. */
export function abandonCall(slot: number): void {
  if (native().cancel(slot)) {
    vacate(slot);
    return;
  }
  // The outcome is in the batch that is being delivered. The caller of an earlier outcome cancelled this call.
  hearInstead(slot, (outcome) => {
    if (outcome instanceof Grant) release(outcome.id, () => undefined);
  });
}

/**
 * Maximum delay of recorded calls, in ms. Calls of continuations are sent together, but none waits longer for others.
 */
const MOMENT = 1;

/** Whether the outcomes that are being delivered were read more than `MOMENT` ago. */
let late = false;
let time = 0;

/** Returns the time in ms. While outcomes are delivered, this is the last time that was read. */
export function now(): number {
  return gathering ? time : performance.now();
}

/** No values beside the rows. */
const NONE: unknown[] = [];

/** Delivers outcomes. A single one is delivered synchronously, so its awaiting caller continues when this returns. */
function settle(rows: number, beside = NONE): void {
  late = false;
  if (rows === 1) settleOne(outcomes, 0, beside);
  else void settleAll(copyOutcomes(rows), beside);
}

/** Delivers the outcome in the row at `at`. An exception of the program's code does not affect other rows. */
function settleOne(batch: Float64Array, at: number, beside: unknown[]): void {
  try {
    settleRow(batch, at, beside);
  } catch (thrown) {
    throwLater(thrown);
  }
}

/** Delivers one row. If it has a value beside it, that is the first of `beside`, which this removes. */
function settleRow(batch: Float64Array, at: number, beside: unknown[]): void {
  const slot = batch[at] as number;
  const value = batch[at + 1] as number;
  if (slot < 0) unasked(slot, value, beside.shift());
  else if (value === FAILURE) deliver(slot, new Failed(beside.shift() as Failure));
  else if (Number.isNaN(value)) deliver(slot, beside.shift());
  else deliver(slot, value === 0 ? undefined : readGrant(batch, at));
}

/**
 * Delivers one outcome at a time, and lets its awaiting caller run before the next. Otherwise the caller of the first
 * lease could block the thread until the second one, which was already checked, has expired.
 */
async function settleAll(batch: Float64Array, beside: unknown[]): Promise<void> {
  gathering = true;
  time = performance.now();
  let sent = time;
  try {
    for (let at = 0; at < batch.length; at += OUTCOME_COLUMNS) {
      settleOne(batch, at, beside);
      await undefined;
      time = performance.now();
      if (time - sent > MOMENT) {
        send();
        sent = time;
        late = true;
      }
    }
  } finally {
    gathering = false;
    send();
  }
}

/** The callbacks for the loss of a lease, by number. */
const losses = new Map<number, (failure: Failure) => void>();

function unasked(kind: number, value: number, about: unknown): void {
  if (kind === CREDENTIALS) {
    void asked(value).then((told) => runtime.giveCredentials(about as number, ...told));
    return;
  }
  if (kind === STEP) {
    tellOfStep(about as Step);
    look();
    return;
  }
  if (kind === WARNING) {
    pass(about as string);
    return;
  }
  const told = losses.get(value);
  losses.delete(value);
  told?.(about as Failure);
}

/** Calls `told` once if the lease with this number is lost. Returns false if it has already ended. */
export function watch(lease: number, told: (failure: Failure) => void): boolean {
  if (!native().leaseWatch(lease)) return false;
  losses.set(lease, told);
  return true;
}

/** Stops watching a lease that has ended and can no longer be lost. */
export function unwatch(lease: number): void {
  losses.delete(lease);
}
