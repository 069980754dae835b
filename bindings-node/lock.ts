/** What to lock. */

import { attempt, runtime, settled, settledUnless, unwrap } from "./calls.js";
import { Lease, type Place } from "./lease.js";
import type { Inspection, NativeLock } from "./native.js";
import { ACQUIRE, type AcquireOptions, checked, type LockOptions } from "./options.js";

/** What a lock needs of its client; the default client is looked up at each use. */
export type Bind = () => NativeLock;

/** What to lock: names and options. It has no state: share it, and use it as often as you like. */
export class Lock {
  readonly #bind: Bind;
  readonly #wait: number;

  /** @internal */
  constructor(bind: Bind, options: LockOptions) {
    this.#bind = bind;
    this.#wait = options.wait ?? Number.POSITIVE_INFINITY;
  }

  /** The exact Redis key (several names: what errors call them). */
  get key(): string {
    return this.#bind().key;
  }

  /** The exact Redis keys. */
  get keys(): string[] {
    return this.#bind().keys;
  }

  /**
   * The lease, as soon as nobody else holds the lock. Rejects with `LockTimeout` when `wait` is over, with
   * `QuorumUnavailable` when too many nodes fail, and with the signal's reason when it aborts.
   */
  async acquire(options?: AcquireOptions): Promise<Lease> {
    const place = here(this.acquire);
    const { signal, wait } = checked(options, ACQUIRE, "acquire()");
    signal?.throwIfAborted();
    const lock = this.#bind();
    const started = performance.now();
    for (let left = wait; ; left = this.#left(wait, started)) {
      const id = attempt(() => lock.acquire(left));
      unwrap(await (signal ? settledUnless(id, signal) : settled(id)));
      const lease = stillHeld(id, lock, place);
      if (lease !== undefined) return lease;
      signal?.throwIfAborted();
    }
  }

  /** The lease if it can be had in one round, `null` if somebody else holds it or waits for it. */
  async tryAcquire(): Promise<Lease | null> {
    const place = here(this.tryAcquire);
    const lock = this.#bind();
    for (;;) {
      const id = lock.tryAcquire();
      if (!unwrap<boolean>(await settled(id))) return null;
      const lease = stillHeld(id, lock, place);
      if (lease !== undefined) return lease;
    }
  }

  /**
   * Runs `body` while the lock is held, and settles as `body` does. Rejects with `LockLost` if `body` succeeded but the
   * lease was lost meanwhile; `lease.signal` tells `body` in time.
   */
  async using<T>(body: (lease: Lease) => T | PromiseLike<T>, options?: AcquireOptions): Promise<T> {
    const lease = await this.acquire(options);
    let result: T;
    try {
      result = await body(lease);
    } catch (error) {
      // The body's error stands; what went wrong with the release is the lesser news.
      await lease.release().catch(() => undefined);
      throw error;
    }
    await lease[Symbol.asyncDispose]();
    return result;
  }

  /** Takes over a lease by its token, from another process for instance, and renews it from here on. */
  async attach(token: string): Promise<Lease> {
    const place = here(this.attach);
    const lock = this.#bind();
    const id = lock.attach(String(token));
    unwrap(await settled(id));
    return new Lease(id, lock.key, place);
  }

  /** What the nodes say now: held or not, for how long, and each node's answer. */
  async inspect(): Promise<Inspection> {
    return unwrap(await settled(this.#bind().inspect()));
  }

  /** What is left of one budget over several attempts. */
  #left(wait: number | undefined, started: number): number {
    const budget = wait ?? this.#wait;
    return Math.max(0, Math.ceil(budget - (performance.now() - started)));
  }
}

/** Nothing if the lease ended before the caller could run, as when the thread was blocked: it is not handed out. */
function stillHeld(id: number, lock: NativeLock, place: Place): Lease | undefined {
  if (runtime.leaseHeld(id)) return new Lease(id, lock.key, place);
  runtime.leaseAbandon(id);
  return undefined;
}

/** Two frames of the caller are enough to find it, and cost less than ten. */
function here(below: (...args: never[]) => unknown): Place {
  const place: Place = {};
  const limit = Error.stackTraceLimit;
  Error.stackTraceLimit = 2;
  Error.captureStackTrace(place, below);
  Error.stackTraceLimit = limit;
  return place;
}
