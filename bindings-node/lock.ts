/** What to lock. */

import type { Grant } from "./batch.js";
import { begin, cancelOn, failing, reasonOf, settled, unwrap } from "./calls.js";
import type { CallSite } from "./collection.js";
import type { Kept } from "./credentials.js";
import type { Locked } from "./handle.js";
import { Lease } from "./lease.js";
import type { Inspection, NativeLock } from "./native.js";
import { ACQUIRE, type AcquireOptions, callback, checked, tokenText } from "./options.js";
import { Failed } from "./pending.js";
import { acquire, acquireAgain, now } from "./runtime.js";

/**
 * A lock of one client.
 * @internal
 */
export class Bound {
  readonly number: number;
  /** What its leases keep: not the native lock, of which there may be one for each of them. */
  readonly locked: Locked;

  constructor(
    readonly native: NativeLock,
    names: readonly string[],
    kept?: Kept,
  ) {
    const { key, number, ttl } = native;
    this.number = number;
    this.locked = { key, keys: names.length === 1 ? [key] : native.keys, ttl, kept };
  }
}

/**
 * What a lock needs of its client; the default client is looked up at each use.
 * @internal
 */
export type Bind = () => Bound;

/** For how long (ms) a lock's acquires are taken to come from one place; only warnings show it. */
const SAME_PLACE = 50;

/**
 * What to lock: names and options. It has no state: share it, and use it as often as you like.
 *
 * @example
 * ```js
 * const lock = client.lock(["cart:7", "stock:9"], { ttl: 10_000 });
 * await lock.using((lease) => lease.held); // true
 * ```
 */
export class Lock {
  readonly #bind: Bind;
  readonly #names: readonly string[];
  #site: CallSite | undefined;
  #sited = Number.NEGATIVE_INFINITY;

  /** @internal */
  constructor(bind: Bind, names: readonly string[]) {
    this.#bind = bind;
    this.#names = names;
  }

  /**
   * The names, without the client's prefix.
   *
   * @example
   * ```js
   * client.lock(["a", "b"]).names; // ["a", "b"]
   * ```
   */
  get names(): string[] {
    return [...this.#names];
  }

  /**
   * The exact Redis key; of several names all keys, with commas between.
   *
   * @example
   * ```js
   * client.lock(["a", "b"]).key; // "lock:a, lock:b"
   * ```
   */
  get key(): string {
    return this.#bind().locked.key;
  }

  /**
   * The exact Redis keys, in the order of the names.
   *
   * @example
   * ```js
   * client.lock(["a", "b"]).keys; // ["lock:a", "lock:b"]
   * ```
   */
  get keys(): string[] {
    return [...this.#bind().locked.keys];
  }

  /**
   * The lease, as soon as nobody else holds the lock. Rejects with `LockTimeout` when `wait` is over, with
   * `QuorumUnavailable` when too few nodes answered all the time, with `ClientClosed`, and with the signal's reason when it
   * aborts; then no key stays behind.
   *
   * @example
   * ```js
   * const lease = await lock.acquire({ wait: 5_000, signal: AbortSignal.timeout(6_000) });
   * await lock.acquire({ wait: 0 }).catch((error) => error.code); // "timeout"
   * await lease.release();
   * ```
   */
  acquire(options?: AcquireOptions): Promise<Lease> {
    return this.#acquire(options, this.#here(this.acquire));
  }

  #acquire(options: AcquireOptions | undefined, site: CallSite): Promise<Lease> {
    return new Promise((resolve, reject) => {
      const { signal, wait } = checked(options, ACQUIRE, "acquire()");
      if (signal?.aborted) throw reasonOf(signal);
      const bound = this.#bind();
      let forget: (() => void) | undefined;
      const hear = (slot: number) => {
        if (signal !== undefined) forget = cancelOn(signal, slot, reject);
      };
      const receive = (outcome: unknown) => {
        forget?.();
        if (outcome instanceof Failed) return resolve(failing(outcome));
        const grant = outcome as Grant;
        const again = acquireAgain(grant, receive);
        if (again === undefined) resolve(new Lease(grant.id, bound.locked, site, grant));
        else hear(again);
      };
      hear(acquire(bound.number, wait, receive));
    });
  }

  /**
   * The lease, or `null` if somebody else holds it or waits for it in this process: one round. Rejects with
   * `QuorumUnavailable` when too few nodes answered.
   *
   * @example
   * ```js
   * const lease = await lock.tryAcquire();
   * await lock.tryAcquire(); // null
   * await lease.release();
   * ```
   */
  tryAcquire(): Promise<Lease | null> {
    const site = this.#here(this.tryAcquire);
    return new Promise((resolve) => {
      const bound = this.#bind();
      const receive = (outcome: unknown) => {
        if (outcome instanceof Failed) return resolve(failing(outcome));
        if (outcome === null) return resolve(null);
        const grant = outcome as Grant;
        if (acquireAgain(grant, receive) !== undefined) return;
        resolve(new Lease(grant.id, bound.locked, site, grant));
      };
      begin((slot) => bound.native.tryAcquire(slot), receive);
    });
  }

  /**
   * Runs `body` while the lock is held, and settles as `body` does. Rejects with `LockLost` if `body` succeeded but the
   * lease was lost meanwhile; `lease.signal` tells `body` in time.
   *
   * @example
   * ```js
   * await lock.using(async (lease) => lease.remaining > 9_000); // true
   * ```
   */
  async using<T>(body: (lease: Lease) => T | PromiseLike<T>, options?: AcquireOptions): Promise<T> {
    callback(body, "using()");
    const lease = await this.#acquire(options, this.#here(this.using));
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

  /**
   * Continues the lease that another process holds under this token. Rejects with `LockLost` if it is not held.
   *
   * Both are one owner then, and each renews for itself. A release by either deletes the key: the other one is told of a
   * loss. So whoever hands a lease over ends its own by `lease.abandon()`; a process that ends without a release does no
   * harm either. The fencing token does not come with the lease: hand it over with the token.
   *
   * @example
   * ```js
   * const ours = await lock.acquire();
   * const theirs = await lock.attach(ours.token); // as a rule in another process
   * ours.abandon(); // true
   * await theirs.release();
   * ```
   */
  async attach(token: string): Promise<Lease> {
    const site = this.#here(this.attach);
    const text = tokenText(token);
    const bound = this.#bind();
    const outcome = await settled((slot) => bound.native.attach(slot, text));
    return new Lease(unwrap<Grant>(outcome).id, bound.locked, site);
  }

  /**
   * Who holds it, by each node's word: a snapshot, which may be over when you read it. Rejects with `QuorumUnavailable` when
   * fewer nodes than a quorum answered within `nodeTimeout`.
   *
   * @example
   * ```js
   * (await lock.inspect()).held; // false
   * ```
   */
  async inspect(): Promise<Inspection> {
    const bound = this.#bind();
    return unwrap(await settled((slot) => bound.native.inspect(slot)));
  }

  /** The caller's frame. Looking it up costs more than sending the request does, so it serves for a moment. */
  #here(below: (...args: never[]) => unknown): CallSite {
    const at = now();
    if (this.#site === undefined || at - this.#sited > SAME_PLACE) {
      const site: CallSite = { uses: 0 };
      const limit = Error.stackTraceLimit;
      Error.stackTraceLimit = 1;
      Error.captureStackTrace(site, below);
      Error.stackTraceLimit = limit;
      this.#site = site;
      this.#sited = at;
    }
    this.#site.uses += 1;
    return this.#site;
  }
}
