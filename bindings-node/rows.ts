/** Calls and outcomes as rows of numbers, which the native part shares: crossing over costs more than most calls do. */

import {
  ACQUIRE,
  CALL_COLUMNS,
  type Failure,
  OUTCOME_COLUMNS,
  RELEASE,
  Runtime,
  WARNING,
} from "./native.js";

/** Warnings of this package carry this code. */
const KIND = { type: "RedlockWarning", code: "REDLOCK" };

/** Shows a warning the way Node shows its own. */
export function warn(text: string): void {
  process.emitWarning(text, KIND);
}

/** A failure on its way to whoever awaits the call; the exception is made there, for its stack. */
export class Failed {
  constructor(readonly failure: Failure) {}
}

export type Deliver = (outcome: unknown) => void;

/** Who waits for the outcome of which slot; slots are used again. */
const waiting: (Deliver | undefined)[] = [];
const free: number[] = [];

/** How many calls are sent at once at most, and how many outcomes come at once at most. */
const CALLS = 256;
const OUTCOMES = 512;

/** Rows of numbers that the native part reads and writes: crossing over costs more than most calls do. */
const calls = new Float64Array(CALLS * CALL_COLUMNS);
const outcomes = new Float64Array(OUTCOMES * OUTCOME_COLUMNS);

/** In an outcome's place for a value: what went wrong stands beside the rows, as any answer does that is no number. */
const FAILURE = Number.POSITIVE_INFINITY;

/** Calls that are written down but not sent. */
let unsent = 0;
/** More calls are to be expected at once: they are sent together. */
let gathering = false;

/** Calls come and go through these; the native part reads and writes their memory. */
const arrays = { calls, outcomes };
const hear = Object.assign((rows: number, beside: unknown[]) => void settle(rows, beside), arrays);

/**
 * This copy of the package's connection to the background thread; answers about leases are to be had from `native()`.
 * It is held by JavaScript alone and holds nothing of it: a copy that nobody uses any more can be collected. What the
 * native part must find hangs on what calls it and what it calls.
 */
const runtime = Object.assign(new Runtime(calls, outcomes, hear), arrays, { hear });

/** The native part, once it knows of every call so far. */
export function native(): Runtime {
  send();
  return runtime;
}

function send(): void {
  if (unsent === 0) return;
  const rows = unsent;
  unsent = 0;
  runtime.send(rows);
}

/** Where the native part leaves the outcome for the receiver. */
export function slotFor(receiver: Deliver): number {
  const slot = free.pop() ?? waiting.length;
  waiting[slot] = receiver;
  return slot;
}

/** Nobody hears the slot's outcome; it can be used again. */
export function vacate(slot: number): void {
  waiting[slot] = undefined;
  free.push(slot);
}

/** The outcome is among those now being delivered: the caller of an earlier one has cancelled this one's call. */
export function discard(slot: number): void {
  waiting[slot] = (outcome) => {
    if (outcome instanceof Grant) release(outcome.id, () => undefined);
  };
}

function write(operation: number, of: number, argument: number, receiver: Deliver): number {
  const slot = slotFor(receiver);
  const at = unsent * CALL_COLUMNS;
  calls[at] = operation;
  calls[at + 1] = of;
  calls[at + 2] = slot;
  calls[at + 3] = argument;
  unsent += 1;
  if (!gathering || unsent === CALLS) send();
  return slot;
}

/** Acquires the lock of this number; the receiver hears a `Grant`, or `Failed`. */
export function acquire(lock: number, wait: number | undefined, receiver: Deliver): number {
  return write(ACQUIRE, lock, wait ?? Number.NaN, receiver);
}

/** Releases the lease of this number. */
export function release(lease: number, receiver: Deliver): void {
  write(RELEASE, lease, 0, receiver);
}

/** A lease as it arrives. */
export class Grant {
  constructor(
    readonly id: number,
    /** When the outcome was picked up. */
    readonly held: boolean,
    readonly fence: number,
    readonly a: number,
    readonly b: number,
    readonly c: number,
    readonly d: number,
  ) {}

  /** The owner's token. */
  get token(): string {
    return hex(this.a) + hex(this.b) + hex(this.c) + hex(this.d);
  }
}

function hex(part: number): string {
  return (part >>> 0).toString(16).padStart(8, "0");
}

/** A moment (ms): calls that continuations make are sent together, but none waits longer for the others. */
const MOMENT = 1;

let late = false;
let time = 0;

/** Whether the outcomes now being delivered were picked up more than a moment ago. */
export function delayed(): boolean {
  return late;
}

/** The time (ms): while outcomes are delivered, that of the last look at the clock. */
export function now(): number {
  return gathering ? time : performance.now();
}

/**
 * One outcome at a time, each followed by what awaits it: otherwise the caller of the first lease could block the thread
 * until the second, already checked, has expired.
 */
async function settle(rows: number, beside: unknown[]): Promise<void> {
  // A copy: the native part writes again as soon as the event loop runs.
  const batch = outcomes.slice(0, rows * OUTCOME_COLUMNS);
  late = false;
  gathering = rows > 1;
  time = performance.now();
  try {
    await deliverAll(batch, beside);
  } finally {
    gathering = false;
    send();
  }
}

async function deliverAll(batch: Float64Array, beside: unknown[]): Promise<void> {
  let sent = time;
  let next = 0;
  for (let at = 0; at < batch.length; at += OUTCOME_COLUMNS) {
    const slot = batch[at] as number;
    const value = batch[at + 1] as number;
    if (slot < 0) unasked(slot, value, beside[next++]);
    else if (value === FAILURE) deliver(slot, new Failed(beside[next++] as Failure));
    else if (Number.isNaN(value)) deliver(slot, beside[next++]);
    else deliver(slot, value === 0 ? undefined : grant(batch, at));
    await undefined;
    time = performance.now();
    if (time - sent > MOMENT) {
      send();
      sent = time;
      late = true;
    }
  }
}

function grant(batch: Float64Array, at: number): Grant {
  const value = batch[at + 1] as number;
  const [a, b] = [batch[at + 2] as number, batch[at + 3] as number];
  const [c, d] = [batch[at + 4] as number, batch[at + 5] as number];
  return new Grant(Math.abs(value), value > 0, batch[at + 6] as number, a, b, c, d);
}

function deliver(slot: number, outcome: unknown): void {
  const receiver = waiting[slot];
  vacate(slot);
  receiver?.(outcome);
}

/** Called back with the loss of a lease, by its number. */
const losses = new Map<number, (failure: Failure) => void>();

function unasked(kind: number, value: number, about: unknown): void {
  if (kind === WARNING) {
    warn(about as string);
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
