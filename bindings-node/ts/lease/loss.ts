/** Notifies the program of lost leases, with a signal for each lease and callbacks. */

import { AsyncResource } from "node:async_hooks";
import { type LockLost, toError } from "../errors/errors.js";
import type { Failure } from "../native.js";
import { setImmediate } from "../platform/clock.js";
import { unwatch, watch } from "../runtime/loss-watches.js";
import { native } from "../runtime/runtime.js";
import { publishLoss } from "../telemetry/trace.js";
import { addLossListener, throwLater } from "../telemetry/warnings.js";

/** The listeners for the loss of one lease. They stay until the lease ends, even if its object is collected. */
export class Loss {
  #error: LockLost | undefined;
  #controller: AbortController | undefined;
  #abort: ((reason: unknown) => void) | undefined;
  readonly #callbacks = new Set<(error: LockLost) => void>();
  readonly #key: string;
  /** Set while the program listens, so that the loss does not cause a warning. Call it to stop. */
  #stopListening: ((lost: boolean) => void) | undefined;
  #ended = false;
  /** Whether a callback was registered after the loss. */
  #isLate = false;

  constructor(key: string) {
    this.#key = key;
  }

  /** Updates `#stopListening` after a listener was added or removed, or when the lease has ended. */
  updateListening(ended = this.#ended, lost = false): void {
    this.#ended = ended;
    const listening = this.#controller !== undefined || this.#callbacks.size > 0;
    if (listening && !ended) {
      this.#stopListening ??= addLossListener(this.#key);
    } else {
      this.#stopListening?.(lost);
      this.#stopListening = undefined;
    }
  }

  /** The loss, if it aborted the signal. */
  get abortReason(): LockLost | undefined {
    return this.#controller?.signal.reason === this.#error ? this.#error : undefined;
  }

  /** Whether the listeners were notified. */
  get isReported(): boolean {
    return this.#error !== undefined;
  }

  /** Its listeners run in the asynchronous context in which the signal was first read. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      const controller = new AbortController();
      this.#controller = controller;
      this.#abort = AsyncResource.bind((reason: unknown) => controller.abort(reason));
      if (this.#error !== undefined) controller.abort(this.#error);
      this.updateListening();
    }
    return this.#controller.signal;
  }

  /** Aborts the signal without a loss. */
  stop(reason: unknown): void {
    if (this.signal.aborted) return;
    this.#abort?.(reason);
  }

  /** Notifies the listeners of the loss. */
  notify(error: LockLost): void {
    this.#error = error;
    this.updateListening(true, true);
    publishLoss(this.#key, error);
    this.#abort?.(error);
    // A copy, because a callback may register another one.
    for (const bound of [...this.#callbacks]) this.#call(bound, error);
  }

  /** Calls a callback, unless it was removed. Other callbacks must still run if it throws. */
  #call(bound: (error: LockLost) => void, error: LockLost): void {
    if (!this.#callbacks.delete(bound)) return;
    try {
      bound(error);
    } catch (thrown) {
      throwLater(thrown);
    }
  }

  /**
   * Registers a callback for the loss, which runs soon if the lease is already lost. It runs in the current
   * asynchronous context. The returned function removes it.
   */
  listen(callback: (error: LockLost) => void): () => void {
    const bound = AsyncResource.bind(callback);
    this.#callbacks.add(bound);
    this.updateListening();
    const error = this.#error;
    if (error !== undefined) {
      const call = () => this.#call(bound, error);
      // Only the first one runs in a microtask. A callback that always registers itself again would otherwise block the
      // event loop.
      if (this.#isLate) setImmediate(call);
      else void Promise.resolve().then(call);
      this.#isLate = true;
    }
    return () => {
      this.#callbacks.delete(bound);
      this.updateListening();
    };
  }
}

/** The listeners of leases that can still be lost, by number. */
const watches = new Map<number, Loss>();

/** Stops watching a lease that has ended and can no longer be lost. */
export function forget(id: number): void {
  watches.get(id)?.updateListening(true);
  if (watches.delete(id)) unwatch(id);
}

/** Reports the loss of a watched lease. A second call does nothing. */
export function reportLoss(id: number, failure: Failure): void {
  const loss = watches.get(id);
  if (loss === undefined) return;
  watches.delete(id);
  unwatch(id);
  loss.notify(toError(failure) as LockLost);
}

/** Returns the listeners for the loss of this lease. */
export function lossOf(id: number, key: string): Loss {
  const known = watches.get(id);
  if (known !== undefined) return known;
  const loss = new Loss(key);
  const failure = native().leaseFailure(id);
  // A released lease is not held either, but that is not a loss.
  if (failure?.reason) loss.notify(toError(failure) as LockLost);
  else if (!failure && watch(id, (lost) => reportLoss(id, lost))) watches.set(id, loss);
  else loss.updateListening(true);
  return loss;
}
