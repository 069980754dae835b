/** Notifies the program of lost leases, with a signal for each lease and callbacks. */

import { AsyncResource } from "node:async_hooks";
import { setImmediate } from "./clock.js";
import { type LockLost, toError } from "./errors.js";
import type { Failure } from "./native.js";
import { native, unwatch, watch } from "./runtime.js";
import { publishLoss } from "./trace.js";
import { addLossListener, throwLater } from "./warnings.js";

/** Whether the program listens for the loss of one lease. Does not refer to the listeners. */
class Listening {
  /** Set while the program listens, so that the loss does not cause a warning. Call it to stop. */
  #stop: ((lost: boolean) => void) | undefined;
  #ended = false;

  constructor(readonly key: string) {}

  /** Updates the state after a listener was added or removed. */
  update(listening: boolean): void {
    if (this.#ended) return;
    if (listening) this.#stop ??= addLossListener(this.key);
    else this.#end(false);
  }

  /** Ends it, because the lease has ended. `notified` means that the loss is reported to the listeners. */
  end(notified = false): void {
    this.#ended = true;
    this.#end(notified);
  }

  #end(notified: boolean): void {
    this.#stop?.(notified);
    this.#stop = undefined;
  }
}

/** The listeners for the loss of one lease. */
export class Loss {
  #error: LockLost | undefined;
  #controller: AbortController | undefined;
  #abort: ((reason: unknown) => void) | undefined;
  readonly #callbacks = new Set<(error: LockLost) => void>();
  readonly #listening: Listening;
  /** Whether a callback is running. */
  #calling = false;

  constructor(listening: Listening) {
    this.#listening = listening;
  }

  #update(): void {
    this.#listening.update(this.#controller !== undefined || this.#callbacks.size > 0);
  }

  /** Its listeners run in the asynchronous context in which the signal was first read. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      const controller = new AbortController();
      this.#controller = controller;
      this.#abort = AsyncResource.bind((reason: unknown) => controller.abort(reason));
      if (this.#error !== undefined) controller.abort(this.#error);
      this.#update();
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
    this.#abort?.(error);
    // A copy, because a callback may register another one, which then runs in a later turn.
    for (const bound of [...this.#callbacks]) this.#call(bound, error);
  }

  /** Calls a callback, unless it was removed. Other callbacks must still run if it throws. */
  #call(bound: (error: LockLost) => void, error: LockLost): void {
    if (!this.#callbacks.delete(bound)) return;
    this.#calling = true;
    try {
      bound(error);
    } catch (thrown) {
      throwLater(thrown);
    } finally {
      this.#calling = false;
    }
  }

  /**
   * Registers a callback for the loss, which runs soon if the lease is already lost. It runs in the current
   * asynchronous context. The returned function removes it.
   */
  listen(callback: (error: LockLost) => void): () => void {
    const bound = AsyncResource.bind(callback);
    this.#callbacks.add(bound);
    this.#update();
    const error = this.#error;
    if (error !== undefined) {
      const call = () => this.#call(bound, error);
      // In a microtask, a callback that always registers itself again would block the event loop.
      if (this.#calling) setImmediate(call);
      else void Promise.resolve().then(call);
    }
    return () => {
      this.#callbacks.delete(bound);
      this.#update();
    };
  }
}

/** A lease that can still be lost. */
interface Watched {
  /** Only the handle of the lease holds it strongly. A listener that refers to the lease must not keep it alive. */
  readonly loss: WeakRef<Loss>;
  readonly listening: Listening;
}

/** The leases that can still be lost and whose loss was requested, by number. */
const watches = new Map<number, Watched>();

/** Stops watching a lease that has ended and can no longer be lost. */
export function forget(id: number): void {
  watches.get(id)?.listening.end();
  if (watches.delete(id)) unwatch(id);
}

/** Reports the loss of a watched lease. A second call does nothing. */
export function reportLoss(id: number, failure: Failure): void {
  const watched = watches.get(id);
  if (watched === undefined) return;
  watches.delete(id);
  unwatch(id);
  notify(watched.loss.deref(), watched.listening, failure);
}

function notify(loss: Loss | undefined, listening: Listening, failure: Failure): void {
  const error = toError(failure) as LockLost;
  listening.end(loss !== undefined);
  publishLoss(listening.key, error);
  loss?.notify(error);
}

/** Returns the listeners for the loss of this lease. */
export function lossOf(id: number, key: string): Loss {
  const watched = watches.get(id);
  const known = watched?.loss.deref();
  if (known !== undefined) return known;
  // The lease was listed again, as another object, after its first one was collected.
  watched?.listening.end();
  const listening = new Listening(key);
  const loss = new Loss(listening);
  const failure = native().leaseFailure(id);
  // A released lease is not held either, but that is not a loss.
  if (failure?.reason) notify(loss, listening, failure);
  else if (!failure && watch(id, (lost) => reportLoss(id, lost))) {
    watches.set(id, { loss: new WeakRef(loss), listening });
  } else listening.end();
  return loss;
}
