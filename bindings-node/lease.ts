/** What you hold. */

import type { Grant } from "./batch.js";
import { attempt, failing, settled, unwrap } from "./calls.js";
import { type CallSite, overlook, type Remains, watchOver, where } from "./collection.js";
import { InvalidOption, LockLost, type QuorumUnavailable, toError } from "./errors.js";
import { forget, lossOf } from "./loss.js";
import { shown } from "./native.js";
import { checked, callback as checkedCallback, LOCK } from "./options.js";
import { Failed } from "./pending.js";
import { native, release, warn } from "./runtime.js";

/**
 * What a lease has of its lock.
 * @internal
 */
export interface Locked {
  readonly key: string;
  readonly keys: readonly string[];
  readonly ttl: number;
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
  readonly #lock: Locked;
  readonly #grant: Grant | undefined;
  readonly #site: CallSite | undefined;
  #token: string | undefined;
  #fence: number | null = null;
  /** Once it is not its lock's any more. */
  #ttl: number | undefined;
  #released = false;
  #registered = false;
  #loss: AbortController | undefined;

  /** @internal */
  constructor(id: number, lock: Locked, site?: CallSite, grant?: Grant) {
    this.#id = id;
    this.#lock = lock;
    this.key = lock.key;
    this.#site = site;
    this.#grant = grant;
    if (site !== undefined) watchOver(this);
  }

  /** @internal */
  register(): Remains | undefined {
    if (this.#released || this.#site === undefined) return undefined;
    this.#registered = true;
    // The core names it when the lease is held for long, or waited for by its own client.
    native().leaseCallSite(this.#id, where(this.#site));
    return { id: this.#id, key: this.key, site: this.#site };
  }

  /**
   * The exact Redis keys: one, unless the lock has several names.
   *
   * @example
   * ```js
   * lease.keys; // ["lock:job"]
   * ```
   */
  get keys(): string[] {
    return [...this.#lock.keys];
  }

  /**
   * How long (ms) each renewal makes it last: the lock's ttl, until `extend` is given another.
   *
   * @example
   * ```js
   * lease.ttl; // 10000
   * ```
   */
  get ttl(): number {
    return native().leaseTtl(this.#id) ?? this.#ttl ?? this.#lock.ttl;
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
    this.#ttl = this.ttl;
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
    if (this.#registered) overlook(this);
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
    this.#loss ??= lossOf(this.#id);
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
