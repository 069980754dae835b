/** The callbacks for lost leases, by the lease's number. */

import type { Failure } from "../native.js";
import { runtime } from "./connection.js";
import { send } from "./sender.js";

const losses = new Map<number, (failure: Failure) => void>();

/** Calls `listener` once if the lease with this number is lost. Returns false if it has already ended. */
export function watch(lease: number, listener: (failure: Failure) => void): boolean {
  send();
  if (!runtime.leaseWatch(lease)) return false;
  losses.set(lease, listener);
  return true;
}

/** Removes the callback of a lease that has ended without a loss. */
export function unwatch(lease: number): void {
  losses.delete(lease);
}

/** Calls the callback of a lost lease. */
export function deliverLoss(lease: number, failure: Failure): void {
  const listener = losses.get(lease);
  losses.delete(lease);
  listener?.(failure);
}
