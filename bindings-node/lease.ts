/** What you hold. */

import type { Grant } from "./batch.js";
import { endOfScope } from "./calls.js";
import { type CallSite, watchOver } from "./collection.js";
import type { LockLost } from "./errors.js";
import { LeaseHandle, type Locked } from "./handle.js";
import { printable, uncloneable } from "./looks.js";
import { noSignal } from "./options.js";
import { callback as checkedCallback, isObject, notOurs } from "./values.js";

const UNCLONEABLE = uncloneable("a lease", "pass lease.token on and attach() to it there");

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
export class Lease<Fencing extends boolean = boolean> {
  /**
   * The exact Redis key; of several names all keys, with commas between.
   *
   * @example
   * ```js
   * lease.key; // "lock:job"
   * ```
   */
  readonly key: string;
  /** @internal */
  readonly uncloneable = UNCLONEABLE;
  readonly #handle: LeaseHandle;

  /** @internal */
  constructor(id: number, lock: Locked, site?: CallSite, grant?: Grant) {
    this.#handle = new LeaseHandle(id, lock, site, grant);
    this.key = lock.key;
    if (site !== undefined) watchOver(this, this.#handle);
  }

  /** The handle of a lease, which may be anything where a method was detached from its object. */
  static #of(lease: Lease): LeaseHandle {
    if (isObject(lease) && #handle in lease) return lease.#handle;
    throw notOurs("Lease", lease);
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
    return Lease.#of(this).keys;
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
    return Lease.#of(this).ttl;
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
    return Lease.#of(this).token;
  }

  /**
   * Larger than that of every earlier lease of this lock, so that a resource which remembers the largest it has seen can
   * refuse a holder that was away too long. A number for a lock that was made with `fencing: true`, of which TypeScript
   * knows (`Lease<true>`); throws `InvalidOption` for any other.
   *
   * @example
   * ```js
   * const lock = client.lock("row", { fencing: true });
   * const first = await lock.using((lease) => lease.fencingToken);
   * await lock.using((lease) => lease.fencingToken > first); // true
   * ```
   */
  get fencingToken(): Fencing extends true ? number : unknown {
    return Lease.#of(this).fencingToken as Fencing extends true ? number : unknown;
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
    return Lease.#of(this).held;
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
    return Lease.#of(this).remaining;
  }

  /**
   * Throws `LockLost` when it was lost, `LockReleased` when it was released: ask before you write. No question to the nodes.
   *
   * @example
   * ```js
   * lease.ensureHeld();
   * await lease.release();
   * assert.throws(() => lease.ensureHeld(), LockLost);
   * ```
   */
  ensureHeld(): void {
    Lease.#of(this).ensureHeld();
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
  extend(ttl?: number): Promise<void>;
  async extend(ttl?: number, none?: unknown): Promise<void> {
    noSignal(none, "extend()");
    await Lease.#of(this).extend(ttl);
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
  release(): Promise<void>;
  release(none?: unknown): Promise<void> {
    return Lease.#of(this).release(none);
  }

  /**
   * Ends it here and leaves the key, which lives out its ttl or goes on under who attached to its token. True if it was
   * still held. To hand a lease over: pass `token` on, wait for the other's `attach`, detach.
   *
   * @example
   * ```js
   * lease.detach(); // true
   * (await client.lock("job").inspect()).held; // true
   * ```
   */
  detach(): boolean {
    return Lease.#of(this).detach();
  }

  /**
   * Aborts, with a `LockLost` as its reason, when the lease is lost; in the body of `using` also with the reason of the
   * signal given to `using`. A release does not abort it. Its listeners run in the asynchronous context
   * (`AsyncLocalStorage`) in which it was first asked for.
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
    return Lease.#of(this).loss.signal;
  }

  /**
   * Aborts its signal, and leaves the lease as it is.
   * @internal
   */
  stop(reason: unknown): void {
    Lease.#of(this).loss.stop(reason);
  }

  /**
   * Calls back once if the lease is lost; soon, if it is lost already; in the asynchronous context of this call. What it
   * returns takes the callback back.
   *
   * @example
   * ```js
   * const told = new Promise((resolve) => lease.onLost(resolve));
   * client.close();
   * (await told).kind; // "lost"
   * ```
   */
  onLost(callback: (error: LockLost) => void): () => void {
    return Lease.#of(this).loss.listen(checkedCallback(callback, "onLost()"));
  }

  /**
   * What may be logged of it: `key`, `held`, `remaining`, `ttl`. `util.inspect` shows the same, neither has the token.
   *
   * @example
   * ```js
   * JSON.parse(JSON.stringify(lease)).key; // "lock:job"
   * ```
   */
  toJSON(): { key: string; held: boolean; remaining: number; ttl: number } {
    // To log a Proxy of it must not throw.
    if (!(#handle in this)) return {} as never;
    const { key, held, remaining, ttl } = this;
    return { key, held, remaining, ttl };
  }

  /**
   * The function that `await using` calls at the end of a scope: as `release()`, but unreachable nodes are only warned of,
   * since the key ends by itself, and a loss that `ensureHeld`, `extend` or `release` has thrown already is not thrown again.
   *
   * `await using` reads this property when the scope begins. So reading it throws `LockLost` when the lease is over, and
   * `InvalidOption` when another scope releases the lease: an earlier `await using`, `using()` or `withLock()`.
   *
   * @example
   * ```js
   * await lease[Symbol.asyncDispose](); // what `await using lease = await lock.acquire()` does at its end
   * lease.held; // false
   * ```
   */
  get [Symbol.asyncDispose](): () => Promise<void> {
    const handle = Lease.#of(this);
    handle.enter();
    return () => this.end(handle.told);
  }

  /** @internal */
  enter(): void {
    Lease.#of(this).enter();
  }

  /** @internal */
  async end(told = false): Promise<void> {
    await endOfScope(this.release(), "the key ends with its ttl", told);
  }
}

printable(Lease, "Lease");
