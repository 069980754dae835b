/** The lease, which represents a lock that you hold. */

import type { LockLost } from "../errors/errors.js";
import { rejectSignal } from "../options/options.js";
import { checkCallback, isObject, noConstructor, wrongReceiver } from "../options/values.js";
import { printable, uncloneable } from "../platform/inspect-format.js";
import type { Grant } from "../runtime/rows.js";
import type { CallSite } from "./call-sites.js";
import { watchLease } from "./collection.js";
import { LeaseHandle, type LockInfo } from "./handle.js";
import { awaitScopeEnd } from "./scope-end.js";

const UNCLONEABLE = uncloneable("a lease", "Send lease.token and call attach() there");

/**
 * A lock that you hold. `lock.acquire()` creates a lease and `release()` ends it.
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
   * The exact Redis key. Several keys are separated by commas.
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
  constructor(id: number, lock: LockInfo, site?: CallSite, grant?: Grant) {
    if (typeof id !== "number" || !isObject(lock)) {
      throw noConstructor("Lease", "await lock.acquire()");
    }
    this.#handle = new LeaseHandle(id, lock, site, grant);
    this.key = lock.key;
    if (site !== undefined) watchLease(this, this.#handle);
  }

  /** Returns the handle of a lease. Throws if a method was called on another object. */
  static #handleOf(lease: Lease): LeaseHandle {
    if (isObject(lease) && #handle in lease) return lease.#handle;
    throw wrongReceiver("Lease", lease);
  }

  /**
   * The exact Redis keys, one for each name of the lock.
   *
   * @example
   * ```js
   * lease.keys; // ["lock:job"]
   * ```
   */
  get keys(): string[] {
    return Lease.#handleOf(this).keys;
  }

  /**
   * The lifetime that each renewal sets, in ms. It is the lock's `ttl` until `extend` sets another one.
   *
   * @example
   * ```js
   * lease.ttl; // 10000
   * ```
   */
  get ttl(): number {
    return Lease.#handleOf(this).ttl;
  }

  /**
   * The owner's token, which is the value of the Redis key. It has 32 hex digits, followed by a colon and the label,
   * if the lock has one. Knowing it is enough to release the lock.
   *
   * @example
   * ```js
   * lease.token.length; // 32
   * ```
   */
  get token(): string {
    return Lease.#handleOf(this).token;
  }

  /**
   * The fencing token, which is larger than that of every earlier lease of this lock.
   *
   * A resource that stores the largest token and rejects smaller ones is safe from a holder that was paused too long.
   * The token is a number if the lock has `fencing: true`, which TypeScript expresses as `Lease<true>`.
   * @throws `InvalidOption` if the lock was created without `fencing: true`, and for an attached lease.
   *
   * @example
   * ```js
   * const lock = client.lock("row", { fencing: true });
   * const first = await lock.using((lease) => lease.fencingToken);
   * await lock.using((lease) => lease.fencingToken > first); // true
   * ```
   */
  get fencingToken(): Fencing extends true ? number : unknown {
    return Lease.#handleOf(this).fencingToken as Fencing extends true ? number : unknown;
  }

  /**
   * Whether the lease is valid now, by this process's clock. Does not contact a server.
   *
   * @example
   * ```js
   * lease.held; // true
   * ```
   */
  get held(): boolean {
    return Lease.#handleOf(this).held;
  }

  /**
   * The time for which the lease is certainly valid, in ms. 0 after it has ended. Does not contact a server.
   *
   * @example
   * ```js
   * lease.remaining > 9_000; // true
   * ```
   */
  get remaining(): number {
    return Lease.#handleOf(this).remaining;
  }

  /**
   * Throws if the lease is no longer held. Call it before each write. Does not contact a server.
   * @throws `LockLost` after a loss.
   * @throws `LockReleased` after a release.
   *
   * @example
   * ```js
   * lease.ensureHeld();
   * await lease.release();
   * assert.throws(() => lease.ensureHeld(), LockLost);
   * ```
   */
  ensureHeld(): void {
    Lease.#handleOf(this).ensureHeld();
  }

  /**
   * Extends the lease to at least `ttl` ms from now, but not beyond `maxHold`. It never ends earlier than before.
   * @param ttl Milliseconds, at least 100, default the lease's own. It must not exceed `restartGuard` while
   * that is on. Later renewals use it too.
   * @throws `LockLost` after the lease has ended.
   * @throws `QuorumUnavailable` if too few nodes reply. The lease then stays valid until its previous end.
   * @throws `InvalidOption` for an invalid `ttl`.
   *
   * @example
   * ```js
   * await lease.extend(30_000);
   * lease.remaining > 29_000; // true
   * ```
   */
  extend(ttl?: number): Promise<void>;
  async extend(ttl?: number, none?: unknown): Promise<void> {
    rejectSignal(none, "extend()");
    await Lease.#handleOf(this).extend(ttl);
  }

  /**
   * Releases the lock. A second call does nothing.
   * @throws `LockLost` after a loss.
   * @throws `QuorumUnavailable` if too few nodes confirm. The keys then expire when their TTL ends.
   *
   * @example
   * ```js
   * await lease.release();
   * lease.held; // false
   * ```
   */
  release(): Promise<void>;
  release(none?: unknown): Promise<void> {
    return Lease.#handleOf(this).release(none);
  }

  /**
   * Ends the lease in this process and keeps the key. It expires when its TTL ends, unless another process attached to
   * the token.
   *
   * To transfer a lease, pass `token` to the other process, wait until it has attached, then detach.
   * @returns Whether the lease was still held.
   *
   * @example
   * ```js
   * lease.detach(); // true
   * (await client.lock("job").inspect()).held; // true
   * ```
   */
  detach(): boolean {
    return Lease.#handleOf(this).detach();
  }

  /**
   * A signal that aborts with a `LockLost` when the lease is lost.
   *
   * In the body of `using` it also aborts with the reason of the signal that was passed to `using`. A release does not
   * abort it. Its listeners run in the asynchronous context (`AsyncLocalStorage`) in which this property was first
   * read.
   *
   * @example
   * ```js
   * const aborted = events.once(lease.signal, "abort");
   * client.close();
   * await aborted;
   * lease.signal.reason.reason; // "closed"
   * ```
   */
  get signal(): AbortSignal {
    return Lease.#handleOf(this).loss.signal;
  }

  /**
   * Aborts the signal without affecting the lease.
   * @internal
   */
  abortSignal(reason: unknown): void {
    Lease.#handleOf(this).loss.stop(reason);
  }

  /** @internal The loss, if it aborted the signal. */
  get abortReason(): LockLost | undefined {
    return Lease.#handleOf(this).abortReason;
  }

  /** @internal Whether it was lost, and not released. */
  get isLost(): boolean {
    return Lease.#handleOf(this).isLost;
  }

  /** @internal Whether it was released, or its loss was reported. */
  get hasEnded(): boolean {
    return Lease.#handleOf(this).hasEnded;
  }

  /**
   * Calls back once if the lease is lost, or soon if it is already lost.
   * @param callback Receives the error. It runs in the asynchronous context of this call.
   * @returns A function that removes the callback.
   * @throws `InvalidOption` if `callback` is not a function.
   *
   * @example
   * ```js
   * const lost = new Promise((resolve) => lease.onLost(resolve));
   * client.close();
   * (await lost).kind; // "lost"
   * ```
   */
  onLost(callback: (error: LockLost) => void): () => void {
    return Lease.#handleOf(this).loss.listen(checkCallback(callback, "onLost()"));
  }

  /**
   * Returns the data that is safe to log: `key`, `held`, `remaining` and `ttl`, but not the token. `util.inspect` shows
   * the same.
   *
   * @example
   * ```js
   * JSON.parse(JSON.stringify(lease)).key; // "lock:job"
   * ```
   */
  toJSON(): { key: string; held: boolean; remaining: number; ttl: number } {
    // Logging a Proxy of a lease must not throw.
    if (!(#handle in this)) return {} as never;
    const { key, held, remaining, ttl } = this;
    return { key, held, remaining, ttl };
  }

  /**
   * Returns the function that `await using` calls at the end of a scope. It releases the lease.
   *
   * Unlike `release()`, unreachable nodes only cause a warning, because the key expires. A loss that `ensureHeld`,
   * `extend` or `release` already threw is not thrown again.
   *
   * `await using` reads this property at the start of the scope.
   * @throws `LockLost` if the lease has ended.
   * @throws `InvalidOption` if another scope releases the lease, that is, an earlier `await using`, `using()` or
   * `withLock()`.
   *
   * @example
   * ```js
   * await lease[Symbol.asyncDispose](); // what `await using lease = await lock.acquire()` does at its end
   * lease.held; // false
   * ```
   */
  get [Symbol.asyncDispose](): () => Promise<void> {
    const handle = Lease.#handleOf(this);
    handle.enter();
    return () => this.endScope(handle.lossWasThrown, false);
  }

  /** @internal */
  enterScope(): void {
    Lease.#handleOf(this).enter();
  }

  /** @internal Ends a scope whose body `completed` with success, as far as the scope knows. */
  async endScope(lossWasThrown: boolean, completed: boolean): Promise<void> {
    const ending = Lease.#handleOf(this).release(undefined, completed);
    await awaitScopeEnd(ending, lossWasThrown);
  }
}

printable(Lease, "Lease");
