/** Batches of calls and of outcomes: rows of numbers that the native part shares, as crossing over costs more than most calls. */

import { CALL_COLUMNS, OUTCOME_COLUMNS } from "./native.js";

/** How many calls are sent at once at most, and how many outcomes come at once at most. */
export const CALLS = 256;
const OUTCOMES = 512;

/** The rows that the native part reads. */
export const calls = new Float64Array(CALLS * CALL_COLUMNS);
/** The rows that the native part writes. */
export const outcomes = new Float64Array(OUTCOMES * OUTCOME_COLUMNS);

/** In an outcome's place for a value: what went wrong stands beside the rows, as any answer does that is no number. */
export const FAILURE = Number.POSITIVE_INFINITY;

/** One name of a lock, or several: as the native part takes them. */
export type Names = string | string[];

/** Writes down a call of this operation, on the option set or the lease of that number. */
export function writeCall(
  row: number,
  operation: number,
  of: number,
  slot: number,
  argument: number,
): void {
  const at = row * CALL_COLUMNS;
  calls[at] = operation;
  calls[at + 1] = of;
  calls[at + 2] = slot;
  calls[at + 3] = argument;
}

/** The outcomes in the first rows: a copy, as the native part writes again as soon as the event loop runs. */
export function copyOutcomes(rows: number): Float64Array {
  return outcomes.slice(0, rows * OUTCOME_COLUMNS);
}

/** A lease as it arrives. */
export class Grant {
  constructor(
    readonly id: number,
    /** 0 for none. */
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

/** The lease in the row that begins here. */
export function readGrant(batch: Float64Array, at: number): Grant {
  const [a, b] = [batch[at + 2] as number, batch[at + 3] as number];
  const [c, d] = [batch[at + 4] as number, batch[at + 5] as number];
  return new Grant(batch[at + 1] as number, batch[at + 6] as number, a, b, c, d);
}
