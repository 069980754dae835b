/**
 * Typed arrays for batches of calls and outcomes. Both sides share them, because crossing into the native part costs
 * more than most calls.
 */

import { CALL_COLUMNS, OUTCOME_COLUMNS, RELEASE } from "./native.js";

/** Maximum number of calls and of outcomes in one batch. */
export const CALLS = 256;
const OUTCOMES = 512;

/** The rows that the native part reads. */
export const calls = new Float64Array(CALLS * CALL_COLUMNS);
/** The rows that the native part writes. */
export const outcomes = new Float64Array(OUTCOMES * OUTCOME_COLUMNS);

/** The value of an outcome that failed. As with any result that is not a number, the failure is a side value. */
export const FAILURE = Number.POSITIVE_INFINITY;

/** One name of a lock, or several, in the form that the native part expects. */
export type Names = string | string[];

/** Writes a call of this operation. `target` is the number of an option set or of a lease. */
export function writeCall(
  row: number,
  operation: number,
  target: number,
  slot: number,
  argument: number,
): void {
  const at = row * CALL_COLUMNS;
  calls[at] = operation;
  calls[at + 1] = target;
  calls[at + 2] = slot;
  calls[at + 3] = argument;
}

/** Removes all calls but releases from the first rows. Returns the number of rows that remain. */
export function keepReleases(rows: number): number {
  let kept = 0;
  for (let row = 0; row < rows; row += 1) {
    const [from, to] = [row * CALL_COLUMNS, kept * CALL_COLUMNS];
    if (calls[from] !== RELEASE) continue;
    calls.copyWithin(to, from, from + CALL_COLUMNS);
    kept += 1;
  }
  return kept;
}

/** Returns the numbers of the leases in these outcomes. */
export function leasesIn(batch: ArrayLike<number>): number[] {
  const leases = [];
  for (let at = 0; at < batch.length; at += OUTCOME_COLUMNS) {
    const [slot, value] = [batch[at] as number, batch[at + 1] as number];
    if (slot >= 0 && value > 0 && value !== FAILURE) leases.push(value);
  }
  return leases;
}

/** Copies the outcomes in the first rows. The native part overwrites them as soon as the event loop runs. */
export function copyOutcomes(rows: number): Float64Array {
  return outcomes.slice(0, rows * OUTCOME_COLUMNS);
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

  /** The owner's token. */
  get token(): string {
    return hex(this.a) + hex(this.b) + hex(this.c) + hex(this.d);
  }
}

function hex(part: number): string {
  return (part >>> 0).toString(16).padStart(8, "0");
}

/** Reads the lease in the row that begins at `at`. */
export function readGrant(batch: Float64Array, at: number): Grant {
  const [a, b] = [batch[at + 2] as number, batch[at + 3] as number];
  const [c, d] = [batch[at + 4] as number, batch[at + 5] as number];
  return new Grant(batch[at + 1] as number, batch[at + 6] as number, a, b, c, d);
}
