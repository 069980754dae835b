/** What you hold. */

import { setTimeout } from "node:timers";
import { attempt, failing, settled, unwrap } from "./calls.js";
import { InvalidOption, LockLost, type QuorumUnavailable, toError } from "./errors.js";
import { type Failure, shown, weakly } from "./native.js";
import { checked, callback as checkedCallback, LOCK } from "./options.js";
import { Failed, type Grant, native, release, unwatch, warn, watch } from "./rows.js";

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
  forget(id);
  if (!native().leaseAbandon(id)) return;
  warn(
    `${shown(key)}: a lease was garbage-collected without release(); it is no longer renewed and ends with its ttl. Acquired at ${where(place)}`,
  );
});

function where({ stack = "", uses }: Place): string {
  const frame = stack.split("\n").at(-1)?.trim().replace(/^at /, "");
  return uses === 1 ? `${frame}` : `${frame}, or by the same Lock within that moment`;
}

/** How long (ms) a lease is kept from collection before it is worth a place in the registry. */
const YOUNG = 50;

/** Most leases are released within a moment: a registry entry for each would cost as much as sending its request. */
let young: Lease[] = [];

function watchOver(lease: Lease): void {
  if (young.length === 0) setTimeout(later.call, YOUNG).unref();
  young.push(lease);
}

function register(): void {
  const leases = young;
  young = [];
  for (const lease of leases) lease.register(collected);
}

/** A timer must not keep this copy of the package, which holds `register` itself. */
const later = { register, call: weakly(register) };

/** The leases whose loss somebody asked to be told of, by their numbers: two objects for one lease share one watch. */
const watches = new Map<number, AbortController>();

/** A lease that is over cannot be lost any more. */
function forget(id: number): void {
  if (watches.delete(id)) unwatch(id);
}

/**
 * What you hold: made by `lock.acquire()`, ended by `release()`.
 *
 * @example
 * ```js
 * const lease = await client.lock("job").acquire();
 * lease.held; // true
 * await lease.release();
 * ```
 */
export class Lease {
  /**
   * The exact Redis key; of several names all keys, with commas between.
   *
   * @example
   * ```js
   * lease.key; // "lock:job"
   * ```
   */
  readonly key: string;
  readonly #id: number;
  readonly #grant: Grant | undefined;
  readonly #place: Place | undefined;
  #token: string | undefined;
  #fence: number | null = null;
  #released = false;
  #registered = false;
  #loss: AbortController | undefined;

  /** @internal */
  constructor(id: number, key: string, place?: Place, grant?: Grant) {
    this.#id = id;
    this.key = key;
    this.#place = place;
    this.#grant = grant;
    if (place !== undefined) watchOver(this);
  }

  /** @internal */
  register(registry: FinalizationRegistry<Held>): void {
    if (this.#released || this.#place === undefined) return;
    this.#registered = true;
    registry.register(this, { id: this.#id, key: this.key, place: this.#place }, this);
    // The core names it when the lease is held for long, or waited for by its own client.
    native().leasePlace(this.#id, where(this.#place));
  }

  /**
   * The owner's token, the value of the Redis key: 32 hex digits. Who knows it can release the lock.
   *
   * @example
   * ```js
   * lease.token.length; // 32
   * ```
   */
  get token(): string {
    this.#token ??= this.#grant?.token ?? native().leaseToken(this.#id) ?? "";
    return this.#token;
  }

  /**
   * Larger than that of every earlier lease of this lock, so that a resource which remembers the largest it has seen can
   * refuse a holder that was away too long. Throws `InvalidOption` unless the lock has `fencing: true`.
   *
   * @example
   * ```js
   * const lock = client.lock("row", { fencing: true });
   * const first = await lock.using((lease) => lease.fencingToken);
   * await lock.using((lease) => lease.fencingToken > first); // true
   * ```
   */
  get fencingToken(): number {
    this.#fence ??= this.#grant?.fence || native().leaseFence(this.#id);
    if (this.#fence !== null) return this.#fence;
    const text = "this lease has no fencing token. Make the lock with { fencing: true }";
    const attached = "an attached lease has none, hand it over with the token";
    throw new InvalidOption(`${shown(this.key)}: ${text}; ${attached}`, { resource: this.key });
  }

  /**
   * Whether it is valid now, by this process's clock.
   *
   * @example
   * ```js
   * lease.held; // true
   * ```
   */
  get held(): boolean {
    return native().leaseHeld(this.#id);
  }

  /**
   * Milliseconds that are left for sure; 0 once it is over.
   *
   * @example
   * ```js
   * lease.remaining > 9_000; // true
   * ```
   */
  get remaining(): number {
    return native().leaseRemaining(this.#id);
  }

  /**
   * Throws `LockLost` when it is over, lost or released: ask before you write. No question to the nodes.
   *
   * @example
   * ```js
   * lease.ensureHeld();
   * await lease.release();
   * assert.throws(() => lease.ensureHeld(), LockLost);
   * ```
   */
  ensureHeld(): void {
    const failure = native().leaseFailure(this.#id);
    if (failure) throw toError(failure);
    if (!this.held) throw this.#over();
  }

  /**
   * Makes the lease last at least `ttl` ms from now (default: its own ttl); also the ttl of later renewals. It never
   * shortens. Rejects with `LockLost` once it is over, with `QuorumUnavailable` when too few nodes answered; then it goes on
   * to its end. Rejects with `InvalidOption` for a ttl below 100, or above `restartGuard` over several nodes.
   *
   * @example
   * ```js
   * await lease.extend(30_000);
   * lease.remaining > 29_000; // true
   * ```
   */
  async extend(ttl?: number): Promise<void> {
    checked({ ttl }, LOCK, "extend()");
    const begin = (slot: number) => {
      if (!attempt(() => native().leaseExtend(slot, this.#id, ttl))) throw this.#over();
    };
    unwrap(await settled(begin));
  }

  /**
   * Gives it back. A second time does nothing; after a loss it rejects with `LockLost`, and with `QuorumUnavailable` when
   * too few nodes confirmed: the keys then expire by themselves.
   *
   * @example
   * ```js
   * await lease.release();
   * lease.held; // false
   * ```
   */
  release(): Promise<void> {
    return new Promise((resolve) => {
      if (this.#released) return resolve();
      this.#remember();
      release(this.#id, (outcome) => {
        if (outcome instanceof Failed) return resolve(failing(outcome));
        this.#end();
        resolve();
      });
    });
  }

  /**
   * Ends it here and leaves the key, which lives out its ttl or goes on under who attached to its token. True if it was
   * still held. To hand a lease over: pass `token` on, wait for the other's `attach`, abandon.
   *
   * @example
   * ```js
   * lease.abandon(); // true
   * (await client.lock("job").inspect()).held; // true
   * ```
   */
  abandon(): boolean {
    this.#remember();
    const held = native().leaseAbandon(this.#id);
    this.#end();
    return held;
  }

  #end(): void {
    this.#released = true;
    forget(this.#id);
    if (this.#registered) collected.unregister(this);
  }

  /** What can be asked for only while it is held, but is to be known afterwards; a grant has brought it along. */
  #remember(): void {
    if (this.#grant !== undefined) return;
    this.#token ??= this.token;
    this.#fence ??= native().leaseFence(this.#id);
  }

  /**
   * Aborts, with a `LockLost` as its reason, when the lease is lost. A release does not abort it.
   *
   * @example
   * ```js
   * const aborted = once(lease.signal, "abort");
   * client.close();
   * await aborted;
   * lease.signal.reason.reason; // "closed"
   * ```
   */
  get signal(): AbortSignal {
    this.#loss ??= this.#watch();
    return this.#loss.signal;
  }

  /**
   * Calls back once if the lease is lost; soon, if it is lost already.
   *
   * @example
   * ```js
   * const told = new Promise((resolve) => lease.onLost(resolve));
   * client.close();
   * (await told).code; // "lost"
   * ```
   */
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

  #over(): LockLost {
    const text = `${shown(this.key)}: the lease was released; nothing is held`;
    return new LockLost(text, { resource: this.key });
  }

  /**
   * The end of a scope: as `release()`, but unreachable nodes are only warned of, since the key ends by itself.
   *
   * @example
   * ```js
   * await lease[Symbol.asyncDispose](); // what `await using lease = await lock.acquire()` does at its end
   * lease.held; // false
   * ```
   */
  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.release();
    } catch (error) {
      if ((error as QuorumUnavailable).code !== "unavailable") throw error;
      warn(`${(error as Error).message}; the key ends with its ttl`);
    }
  }
}
