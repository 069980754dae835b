/** Notifies the program of lost leases, with a signal for each lease and callbacks. */

import { AsyncResource } from "node:async_hooks";
import { type LockLost, toError } from "./errors.js";
import type { Failure } from "./native.js";
import { native, unwatch, watch } from "./runtime.js";
import { publishLoss } from "./trace.js";
import { addLossListener, throwLater } from "./warnings.js";

/** The listeners for the loss of one lease. It does not refer to the lease's object, which can still be collected. */
export class Loss {
  #error: LockLost | undefined;
  #controller: AbortController | undefined;
  #abort: ((reason: unknown) => void) | undefined;
  readonly #callbacks = new Set<(error: LockLost) => void>();
  readonly #key: string;
  /** Set while the program listens, so that the loss does not cause a warning. Call it to stop. */
  #stopListening: ((lost: boolean) => void) | undefined;
  #ended = false;

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
    for (const bound of this.#callbacks) {
      try {
        bound(error);
      } catch (thrown) {
        // The other callbacks must still run.
        throwLater(thrown);
      }
    }
    this.#callbacks.clear();
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
      queueMicrotask(() => {
        if (this.#callbacks.delete(bound)) bound(error);
      });
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

/** Returns the listeners for the loss of this lease. */
export function lossOf(id: number, key: string): Loss {
  const known = watches.get(id);
  if (known !== undefined) return known;
  const loss = new Loss(key);
  const failure = native().leaseFailure(id);
  const onLoss = (failure: Failure) => {
    watches.delete(id);
    unwatch(id);
    loss.notify(toError(failure) as LockLost);
  };
  // A released lease is not held either, but that is not a loss.
  if (failure?.reason) onLoss(failure);
  else if (!failure && watch(id, onLoss)) watches.set(id, loss);
  else loss.updateListening(true);
  return loss;
}
