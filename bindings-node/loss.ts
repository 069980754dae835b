/** The loss of leases: a signal for each, and callbacks. */

import { AsyncResource } from "node:async_hooks";
import { nextTick } from "node:process";
import { type LockLost, toError } from "./errors.js";
import type { Failure } from "./native.js";
import { native, unwatch, watch } from "./runtime.js";

/** Who is told of the loss of one lease. It knows nothing of the lease's object, which can still be collected. */
export class Loss {
  #error: LockLost | undefined;
  #controller: AbortController | undefined;
  #abort: ((reason: unknown) => void) | undefined;
  readonly #callbacks = new Set<(error: LockLost) => void>();

  /** Its listeners run in the asynchronous context in which it was first asked for. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      const controller = new AbortController();
      this.#controller = controller;
      this.#abort = AsyncResource.bind((reason: unknown) => controller.abort(reason));
      if (this.#error !== undefined) controller.abort(this.#error);
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
    this.#abort?.(error);
    for (const called of this.#callbacks) {
      try {
        called(error);
      } catch (thrown) {
        // As of an event's listener: the others are told all the same.
        nextTick(() => {
          throw thrown;
        });
      }
    }
    this.#callbacks.clear();
  }

  /** Calls back once it is lost, soon if it is already, in the context of now; until what this returns is called. */
  listen(callback: (error: LockLost) => void): () => void {
    const called = AsyncResource.bind(callback);
    this.#callbacks.add(called);
    const error = this.#error;
    if (error !== undefined) {
      queueMicrotask(() => {
        if (this.#callbacks.delete(called)) called(error);
      });
    }
    return () => void this.#callbacks.delete(called);
  }
}

/** The leases whose loss somebody asked to be told of, by their numbers. */
const watches = new Map<number, Loss>();

/** A lease that is over cannot be lost any more. */
export function forget(id: number): void {
  if (watches.delete(id)) unwatch(id);
}

/** The loss of the lease of this number. */
export function lossOf(id: number): Loss {
  const known = watches.get(id);
  if (known !== undefined) return known;
  const loss = new Loss();
  const failure = native().leaseFailure(id);
  const told = (failure: Failure) => {
    forget(id);
    loss.tell(toError(failure) as LockLost);
  };
  // A released lease is not held either, but that is no loss.
  if (failure?.reason) told(failure);
  else if (!failure && watch(id, told)) watches.set(id, loss);
  return loss;
}
