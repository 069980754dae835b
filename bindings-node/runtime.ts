/** This copy's connection to the background thread: calls go out together, and outcomes come one after the other. */

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
 * So many calls go out before all are written down: the servers work on them while JavaScript goes on. With a core each that
 * is half as much again as one after the other; on one core it costs a tenth (docs/speed.md).
 */
const ENOUGH = CALLS / 8;

/** Calls that are written down but not sent. */
let unsent = 0;
/** The names of the locks that they acquire, each at the place of its row. */
const names: (Names | undefined)[] = new Array(CALLS).fill(undefined);
/** More calls are to be expected at once: they are sent together. */
let gathering = false;

/** Calls come and go through these; the native part reads and writes their memory. */
const arrays = { calls, outcomes };
const hear = Object.assign((rows: number, beside?: unknown[]) => settle(rows, beside), arrays);

/**
 * The connection; answers about leases are to be had from `native()`. It is held by JavaScript alone and holds nothing of
 * it: a copy that nobody uses any more can be collected. What the native part must find hangs on what calls it and what it
 * calls.
 */
const runtime = Object.assign(
  outside(() => new Runtime(calls, outcomes, hear)),
  arrays,
  { hear },
);

/** Tells the native part of so many calls that are written down. */
const tell = runtime.sender();

/** The native part, once it knows of every call so far. */
export function native(): Runtime {
  send();
  return runtime;
}

/** What the native part was told to tell of. */
let steps = 0;

/** Whoever has begun to listen hears of what happens from the next call on. */
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

/** Acquires the lock on these names with the options of this number; the receiver hears a `Grant`, or `Failed`. */
export function acquire(
  set: number,
  named: Names,
  wait: number | undefined,
  receiver: Receiver,
): number {
  return write(ACQUIRE, set, wait ?? Number.NaN, receiver, named);
}

/**
 * Asks again for a lease that ended before its caller could run, as when the thread was blocked; the answer is the new
 * call's slot. Nothing if it is held: the native part has looked when it picked the outcome up, and looks again if that is
 * a while ago.
 */
export function acquireAgain({ id }: Grant, receiver: Receiver): number | undefined {
  if (!late) return undefined;
  const slot = slotFor(receiver);
  if (native().acquireAgain(slot, id)) return slot;
  vacate(slot);
  return undefined;
}

/** Releases the lease of this number. */
export function release(lease: number, receiver: Receiver): void {
  write(RELEASE, lease, 0, receiver);
}

/** Nobody wants the slot's outcome any more: its call is stopped, or what it brings is given back. */
export function abandonCall(slot: number): void {
  if (native().cancel(slot)) {
    vacate(slot);
    return;
  }
  // It is among those now being delivered: the caller of an earlier one has cancelled this one's call.
  hearInstead(slot, (outcome) => {
    if (outcome instanceof Grant) release(outcome.id, () => undefined);
  });
}

/** A moment (ms): calls that continuations make are sent together, but none waits longer for the others. */
const MOMENT = 1;

/** Whether the outcomes now being delivered were picked up more than a moment ago. */
let late = false;
let time = 0;

/** The time (ms): while outcomes are delivered, that of the last look at the clock. */
export function now(): number {
  return gathering ? time : performance.now();
}

/** Nothing is beside the rows. */
const NONE: unknown[] = [];

/** What calls came to: where there is one alone, who awaits it goes on when this returns, as ever. */
function settle(rows: number, beside = NONE): void {
  late = false;
  if (rows === 1) settleOne(outcomes, 0, beside);
  else void settleAll(copyOutcomes(rows), beside);
}

/** Settles the outcome in the row that begins here. An exception of the program's own code leaves the other rows alone. */
function settleOne(batch: Float64Array, at: number, beside: unknown[]): void {
  try {
    settleRow(batch, at, beside);
  } catch (thrown) {
    throwLater(thrown);
  }
}

/** Takes what the row has beside it, the first of `beside`, out of that. */
function settleRow(batch: Float64Array, at: number, beside: unknown[]): void {
  const slot = batch[at] as number;
  const value = batch[at + 1] as number;
  if (slot < 0) unasked(slot, value, beside.shift());
  else if (value === FAILURE) deliver(slot, new Failed(beside.shift() as Failure));
  else if (Number.isNaN(value)) deliver(slot, beside.shift());
  else deliver(slot, value === 0 ? undefined : readGrant(batch, at));
}

/**
 * One outcome at a time, each followed by what awaits it: otherwise the caller of the first lease could block the thread
 * until the second, already checked, has expired.
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

/** Called back with the loss of a lease, by its number. */
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

/** Calls `told` once if the lease of this number is lost; false if it is over already. */
export function watch(lease: number, told: (failure: Failure) => void): boolean {
  if (!native().leaseWatch(lease)) return false;
  losses.set(lease, told);
  return true;
}

/** The lease is over: it cannot be lost any more. */
export function unwatch(lease: number): void {
  losses.delete(lease);
}
