/** The loss of leases, as a signal for each. */

import { type LockLost, toError } from "./errors.js";
import type { Failure } from "./native.js";
import { native, unwatch, watch } from "./runtime.js";

/** The leases whose loss somebody asked to be told of, by their numbers: two objects for one lease share one watch. */
const watches = new Map<number, AbortController>();

/** A lease that is over cannot be lost any more. */
export function forget(id: number): void {
  if (watches.delete(id)) unwatch(id);
}

/** Aborts, with a `LockLost` as its reason, when the lease of this number is lost. */
export function lossOf(id: number): AbortController {
  const known = watches.get(id);
  if (known !== undefined) return known;
  const loss = new AbortController();
  const failure = native().leaseFailure(id);
  // A released lease is not held either, but that is no loss.
  if (failure?.reason) loss.abort(toError(failure));
  // The controller only: a lease that is watched can still be collected.
  const told = (failure: Failure) => {
    forget(id);
    loss.abort(toError(failure));
  };
  if (!failure && watch(id, told)) watches.set(id, loss);
  return loss;
}

/** Calls back once the lease of this signal is lost; soon, if it is lost already. */
export function callWhenLost(signal: AbortSignal, called: (error: LockLost) => void): void {
  const tell = () => called(signal.reason as LockLost);
  if (signal.aborted) queueMicrotask(tell);
  else signal.addEventListener("abort", tell, { once: true });
}
