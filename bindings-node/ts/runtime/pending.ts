/** The pending calls, by the slot that identifies each to the native part. */

import type { Failure } from "../native.js";

/** A failure on its way to the awaiting caller. The exception is created there, so that its stack shows the caller. */
export class Failed {
  constructor(readonly failure: Failure) {}
}

/** Receives the outcome of a call. */
export type Receiver = (outcome: unknown) => void;

/** The receivers by slot. Slots are reused. */
const waiting: (Receiver | undefined)[] = [];
const free: number[] = [];

/** Reserves a slot for the outcome of a call. */
export function slotFor(receiver: Receiver): number {
  const slot = free.pop() ?? waiting.length;
  waiting[slot] = receiver;
  return slot;
}

/** Frees a slot. Its receiver no longer gets an outcome. */
export function vacate(slot: number): void {
  waiting[slot] = undefined;
  free.push(slot);
}

/** Replaces the receiver of a slot. */
export function replaceReceiver(slot: number, receiver: Receiver): void {
  waiting[slot] = receiver;
}

/** Frees the slot and passes the outcome to its receiver. */
export function deliver(slot: number, outcome: unknown): void {
  const receiver = waiting[slot];
  vacate(slot);
  receiver?.(outcome);
}
