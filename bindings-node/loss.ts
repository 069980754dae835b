/** The loss of leases: a signal for each, and callbacks. */

import { AsyncResource } from "node:async_hooks";
import { type LockLost, toError } from "./errors.js";
import type { Failure } from "./native.js";
import { native, unwatch, watch } from "./runtime.js";
import { tellOfLoss } from "./trace.js";
import { listens, throwLater } from "./warnings.js";

/** Who is told of the loss of one lease. It knows nothing of the lease's object, which can still be collected. */
export class Loss {
  #error: LockLost | undefined;
  #controller: AbortController | undefined;
  #abort: ((reason: unknown) => void) | undefined;
  readonly #callbacks = new Set<(error: LockLost) => void>();
  readonly #key: string;
  /** Somebody listens: the loss need not be warned of. */
  #unheard: ((lost: boolean) => void) | undefined;
  #over = false;

  constructor(key: string) {
    this.#key = key;
  }

  /** Whether somebody listens has changed, or the lease is over. */
  heed(over = this.#over, lost = false): void {
    this.#over = over;
    const listening = this.#controller !== undefined || this.#callbacks.size > 0;
    if (listening && !over) {
      this.#unheard ??= listens(this.#key);
    } else {
      this.#unheard?.(lost);
      this.#unheard = undefined;
    }
  }

  /** Its listeners run in the asynchronous context in which it was first asked for. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      const controller = new AbortController();
      this.#controller = controller;
      this.#abort = AsyncResource.bind((reason: unknown) => controller.abort(reason));
      if (this.#error !== undefined) controller.abort(this.#error);
      this.heed();
    }
    return this.#controller.signal;
  }

  /** Aborts the signal, without a loss. */
  stop(reason: unknown): void {
    if (this.signal.aborted) return;
    this.#abort?.(reason);
  }

  /** It is lost. */
  tell(error: LockLost): void {
    this.#error = error;
    this.heed(true, true);
    tellOfLoss(this.#key, error);
    this.#abort?.(error);
    for (const called of this.#callbacks) {
      try {
        called(error);
      } catch (thrown) {
        // The other callbacks still run.
        throwLater(thrown);
      }
    }
    this.#callbacks.clear();
  }

  /** Calls back once it is lost, soon if it is already, in the context of now; until what this returns is called. */
  listen(callback: (error: LockLost) => void): () => void {
    const called = AsyncResource.bind(callback);
    this.#callbacks.add(called);
    this.heed();
    const error = this.#error;
    if (error !== undefined) {
      queueMicrotask(() => {
        if (this.#callbacks.delete(called)) called(error);
      });
    }
    return () => {
      this.#callbacks.delete(called);
      this.heed();
    };
  }
}

/** The leases whose loss somebody asked to be told of, by their numbers. */
const watches = new Map<number, Loss>();

/** A lease that is over cannot be lost any more. */
export function forget(id: number): void {
  watches.get(id)?.heed(true);
  if (watches.delete(id)) unwatch(id);
}

/** The loss of the lease of this number, on this key. */
export function lossOf(id: number, key: string): Loss {
  const known = watches.get(id);
  if (known !== undefined) return known;
  const loss = new Loss(key);
  const failure = native().leaseFailure(id);
  const told = (failure: Failure) => {
    watches.delete(id);
    unwatch(id);
    loss.tell(toError(failure) as LockLost);
  };
  // A released lease is not held either, but that is no loss.
  if (failure?.reason) told(failure);
  else if (!failure && watch(id, told)) watches.set(id, loss);
  else loss.heed(true);
  return loss;
}
