/**
 * Calls and outcomes as rows of numbers, in two arrays that both sides share. Crossing into the native part costs more
 * than most calls.
 *
 * The native part declares the columns and the codes (`src/rows.rs`).
 */

import {
  CALL_COLUMNS,
  CallColumn,
  Operation,
  OUTCOME_COLUMNS,
  OutcomeColumn,
  OutcomeValue,
} from "../native.js";

// Read once, because these run for each call, and reading an export of the native part costs more.
const { Operation: OPERATION, Target: TARGET, Slot: CALL_SLOT, Argument: ARGUMENT } = CallColumn;
const {
  Slot: SLOT,
  Value: VALUE,
  Token0: TOKEN_0,
  Token1: TOKEN_1,
  Token2: TOKEN_2,
  Token3: TOKEN_3,
  Fence: FENCE,
} = OutcomeColumn;
const { Nothing: NOTHING, SideValue: SIDE_VALUE, Failure: FAILURE } = OutcomeValue;
const { Release: RELEASE } = Operation;

// docs/contributing/speed.md has the measurements.
/**
 * Maximum number of recorded calls. Then they are sent, so that the servers work while JavaScript records more.
 */
export const MAX_CALLS = 32;
/** Maximum number of outcomes in one batch. */
const MAX_OUTCOMES = 512;

/** The rows that the native part reads. */
export const calls = new Float64Array(MAX_CALLS * CALL_COLUMNS);
/** The rows that the native part writes. */
export const outcomes = new Float64Array(MAX_OUTCOMES * OUTCOME_COLUMNS);

/** One name of a lock, or several, in the form that the native part expects. */
export type Names = string | string[];

/** Writes a call. `target` is the number of an option set or of a lease. */
export function writeCall(
  row: number,
  operation: Operation,
  target: number,
  slot: number,
  argument: number,
): void {
  const at = row * CALL_COLUMNS;
  calls[at + OPERATION] = operation;
  calls[at + TARGET] = target;
  calls[at + CALL_SLOT] = slot;
  calls[at + ARGUMENT] = argument;
}

/** Removes all calls but releases from the first rows. Returns the number of rows that remain. */
export function keepReleases(rows: number): number {
  let kept = 0;
  for (let row = 0; row < rows; row += 1) {
    const [from, to] = [row * CALL_COLUMNS, kept * CALL_COLUMNS];
    if (calls[from + OPERATION] !== RELEASE) continue;
    calls.copyWithin(to, from, from + CALL_COLUMNS);
    kept += 1;
  }
  return kept;
}

/** Copies the outcomes in the first rows. The native part overwrites them as soon as the event loop runs. */
export function copyOutcomes(rows: number): Float64Array {
  return outcomes.slice(0, rows * OUTCOME_COLUMNS);
}

/** Returns the slot of the outcome at `at`, or the kind of a notice, which is negative. */
export function slotAt(batch: ArrayLike<number>, at: number): number {
  return batch[at + SLOT] as number;
}

/** Returns the value of the outcome at `at`. */
export function valueAt(batch: ArrayLike<number>, at: number): number {
  return batch[at + VALUE] as number;
}

/** Whether this value means that the call failed. The failure is a side value. */
export const isFailure = (value: number): boolean => value === FAILURE;
/** Whether this value means that the result is a side value. */
export const isSideValue = (value: number): boolean => value === SIDE_VALUE;

/** Returns the numbers of the leases in these outcomes. */
export function leasesIn(batch: ArrayLike<number>): number[] {
  const leases = [];
  for (let at = 0; at < batch.length; at += OUTCOME_COLUMNS) {
    const value = valueAt(batch, at);
    if (slotAt(batch, at) >= 0 && value > NOTHING) leases.push(value);
  }
  return leases;
}

/** A new lease, as the native part reports it. */
export class Grant {
  constructor(
    readonly id: number,
    /** 0 if there is none. */
    readonly fence: number,
    readonly a: number,
    readonly b: number,
    readonly c: number,
    readonly d: number,
  ) {}

  /** Whether the row has the owner's token. One with a label does not fit. `b` has the version of the UUID. */
  get hasToken(): boolean {
    return this.b !== 0;
  }

  /** The owner's token. */
  get token(): string {
    return hex(this.a) + hex(this.b) + hex(this.c) + hex(this.d);
  }
}

function hex(part: number): string {
  return (part >>> 0).toString(16).padStart(8, "0");
}

/** Reads the lease in the row at `at`, or returns undefined for a call without a result. */
export function readGrant(batch: Float64Array, at: number): Grant | undefined {
  const id = batch[at + VALUE] as number;
  if (id === NOTHING) return undefined;
  const [a, b] = [batch[at + TOKEN_0] as number, batch[at + TOKEN_1] as number];
  const [c, d] = [batch[at + TOKEN_2] as number, batch[at + TOKEN_3] as number];
  return new Grant(id, batch[at + FENCE] as number, a, b, c, d);
}
