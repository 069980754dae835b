/** The calls that are not settled yet, each by the slot that the native part knows it by. */

import type { Failure } from "./native.js";

/** A failure on its way to whoever awaits the call; the exception is made there, for its stack. */
export class Failed {
  constructor(readonly failure: Failure) {}
}

/** Hears what a call came to. */
export type Receiver = (outcome: unknown) => void;

/** Who waits for the outcome of which slot; slots are used again. */
const waiting: (Receiver | undefined)[] = [];
const free: number[] = [];

/** Where the native part leaves the outcome for the receiver. */
export function slotFor(receiver: Receiver): number {
  const slot = free.pop() ?? waiting.length;
  waiting[slot] = receiver;
  return slot;
}

/** Nobody hears the slot's outcome; it can be used again. */
export function vacate(slot: number): void {
  waiting[slot] = undefined;
  free.push(slot);
}

/** Another one hears the slot's outcome. */
export function hearInstead(slot: number, receiver: Receiver): void {
  waiting[slot] = receiver;
}

/** The slot's call is settled. */
export function deliver(slot: number, outcome: unknown): void {
  const receiver = waiting[slot];
  vacate(slot);
  receiver?.(outcome);
}
