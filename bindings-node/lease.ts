/** What you hold. */

import { setTimeout } from "node:timers";
import { attempt, forget, listen, runtime, settled, unwrap, warn } from "./calls.js";
import { InvalidOption, LockLost, type QuorumUnavailable, toError } from "./errors.js";
import { checked, callback as checkedCallback, LOCK } from "./options.js";

/**
 * Where a lease was acquired: a stack that costs its text only if somebody reads it.
 * @internal
 */
export interface Place {
  stack?: string;
  /** How many acquires were put down to it. */
  uses: number;
}

interface Held {
  id: number;
  key: string;
  place: Place;
}

/**
 * A lease that is collected is not released: `lock.acquire()` as a statement must not unlock at once. Renewal ends, the
 * key lives out its ttl, and a warning says where the lease came from.
 */
const collected = new FinalizationRegistry<Held>(({ id, key, place }) => {
  unwatch(id);
  if (!runtime.leaseAbandon(id)) return;
  warn(
    `${key}: a lease was garbage-collected without release(); it is no longer renewed and ends with its ttl. Acquired at ${where(place)}`,
  );
});

function where({ stack = "", uses }: Place): string {
  const frame = stack.split("\n").at(-1)?.trim().replace(/^at /, "");
  return uses === 1 ? `${frame}` : `${frame}, or by the same Lock within that moment`;
}

/** How long (ms) a lease is kept from collection before it is worth a place in the registry. */
const YOUNG = 50;

/** Most leases are released within a moment: a registry entry for each would cost as much as sending its request. */
const young = new Map<Lease, Held>();
let waiting = false;

function watchOver(lease: Lease, held: Held): void {
  if (!waiting) setTimeout(register, YOUNG).unref();
  waiting = true;
  young.set(lease, held);
}

function register(): void {
  for (const [lease, held] of young) {
    collected.register(lease, held, lease);
    // The core names it when the lease is held for long, or waited for by its own client.
    runtime.leasePlace(held.id, where(held.place));
  }
  young.clear();
  waiting = false;
}

interface Watch {
  call: number;
  loss: AbortController;
}

/** The leases whose loss somebody asked to be told of, by their numbers: two objects for one lease share one watch. */
const watches = new Map<number, Watch>();

/** A lease that is over cannot be lost any more. */
function unwatch(id: number): void {
  const watch = watches.get(id);
  if (watch !== undefined) forget(watch.call);
  watches.delete(id);
}

/** What you hold: made by `lock.acquire()`, ended by `release()`. */
export class Lease {
  /** The exact Redis key (several names: what errors call them). */
  readonly key: string;
  readonly #id: number;
  #token: string | undefined;
  #fence: number | null = null;
  #released = false;
  #loss: AbortController | undefined;

  /** @internal */
  constructor(id: number, key: string, place?: Place) {
    this.#id = id;
    this.key = key;
    if (place !== undefined) watchOver(this, { id, key, place });
  }

  /** The owner's token, the value of the Redis key. */
  get token(): string {
    this.#token ??= runtime.leaseToken(this.#id) ?? "";
    return this.#token;
  }

  /**
   * Larger than that of every earlier lease of this lock, so that a resource which remembers the largest it has seen can
   * refuse a holder that was away too long. Throws `InvalidOption` unless the lock has `fencing: true`.
   */
  get fencingToken(): number {
    this.#fence ??= runtime.leaseFence(this.#id);
    if (this.#fence !== null) return this.#fence;
    const text = "this lease has no fencing token. Make the lock with { fencing: true }";
    const attached = "an attached lease has none, hand it over with the token";
    throw new InvalidOption(`${this.key}: ${text}; ${attached}`, { resource: this.key });
  }

  /** Whether it is valid now, by this process's clock. */
  get held(): boolean {
    return runtime.leaseHeld(this.#id);
  }

  /** Milliseconds that are left for sure; 0 once it is over. */
  get remaining(): number {
    return runtime.leaseRemaining(this.#id);
  }

  /** Throws `LockLost` when it is over: ask before you write. */
  ensureHeld(): void {
    const failure = runtime.leaseFailure(this.#id);
    if (failure) throw toError(failure);
    if (!this.held) throw this.#over();
  }

  /**
   * Makes the lease last at least `ttl` ms from now (default: its own ttl); also the ttl of later renewals. It never
   * shortens. Rejects with `LockLost` once it is over, and with `QuorumUnavailable` when too few nodes answered; then it
   * goes on to its end.
   */
  async extend(ttl?: number): Promise<void> {
    checked({ ttl }, LOCK, "extend()");
    const call = attempt(() => runtime.leaseExtend(this.#id, ttl));
    if (call === null) throw this.#over();
    unwrap(await settled(call));
  }

  /**
   * Gives it back. A second time does nothing; after a loss it rejects with `LockLost`, and with `QuorumUnavailable` when
   * too few nodes confirmed: the keys then expire by themselves.
   */
  async release(): Promise<void> {
    if (this.#released) return;
    this.#token ??= this.token;
    this.#fence ??= runtime.leaseFence(this.#id);
    const call = runtime.leaseRelease(this.#id);
    if (call === null) return;
    unwrap(await settled(call));
    this.#end();
  }

  /**
   * Ends it here and leaves the key, which lives out its ttl or goes on under who attached to its token. True if it was
   * still held. To hand a lease over: pass `token` on, wait for the other's `attach`, abandon.
   */
  abandon(): boolean {
    this.#token ??= this.token;
    this.#fence ??= runtime.leaseFence(this.#id);
    const held = runtime.leaseAbandon(this.#id);
    this.#end();
    return held;
  }

  #end(): void {
    this.#released = true;
    unwatch(this.#id);
    if (!young.delete(this)) collected.unregister(this);
  }

  /** Aborts, with a `LockLost` as its reason, when the lease is lost. A release does not abort it. */
  get signal(): AbortSignal {
    this.#loss ??= this.#watch();
    return this.#loss.signal;
  }

  /** Calls back once if the lease is lost; soon, if it is lost already. */
  onLost(callback: (error: LockLost) => void): void {
    const called = checkedCallback(callback, "onLost()");
    const { signal } = this;
    const tell = () => called(signal.reason as LockLost);
    if (signal.aborted) queueMicrotask(tell);
    else signal.addEventListener("abort", tell, { once: true });
  }

  #watch(): AbortController {
    const id = this.#id;
    const known = watches.get(id);
    if (known !== undefined) return known.loss;
    const loss = new AbortController();
    const failure = runtime.leaseFailure(id);
    const call = failure ? null : runtime.leaseWatch(id);
    // A released lease is not held either, but that is no loss.
    if (failure?.reason) loss.abort(toError(failure));
    if (call === null) return loss;
    watches.set(id, { call, loss });
    // The controller only: a lease that is watched can still be collected.
    listen(call, (lost) => {
      unwatch(id);
      loss.abort(toError(lost));
    });
    return loss;
  }

  #over(): LockLost {
    const text = `${this.key}: the lease was released; nothing is held`;
    return new LockLost(text, { resource: this.key });
  }

  /** The end of a scope: as `release()`, but unreachable nodes are only warned of, since the key ends by itself. */
  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.release();
    } catch (error) {
      if ((error as QuorumUnavailable).code !== "unavailable") throw error;
      warn(`${(error as Error).message}; the key ends with its ttl`);
    }
  }
}
