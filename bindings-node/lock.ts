/** What to lock. */

import type { Grant } from "./batch.js";
import type { Described } from "./bound.js";
import { begin, cancelOn, failing, reasonOf, settled, unwrap } from "./calls.js";
import type { CallSite } from "./collection.js";
import { Lease } from "./lease.js";
import { printable, uncloneable } from "./looks.js";
import type { Inspection } from "./native.js";
import {
  ACQUIRE,
  type AcquireOptions,
  checked,
  LOCK,
  type LockOptions,
  noSignal,
  shownOptions,
  TRY,
  type TryAcquireOptions,
} from "./options.js";
import { Failed } from "./pending.js";
import { acquire, acquireAgain, now } from "./runtime.js";
import { type Body, runUnder } from "./scope.js";
import { capture, limitFrames } from "./stack.js";
import { isHeard, traced } from "./trace.js";
import { callback, isObject, notOurs, tokenText } from "./values.js";

/** Whose frame is the last of ours: the caller's comes below it. */
type Way = (...args: never[]) => unknown;
type Asked<Fencing extends boolean> = Promise<Lease<Fencing> | null>;

const UNCLONEABLE = uncloneable("a lock", "make another one there, of its names and options");

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
export class Lock<Fencing extends boolean = boolean> {
  /** @internal */
  readonly uncloneable = UNCLONEABLE;
  readonly #described: Described;
  #site: CallSite | undefined;
  #sited = Number.NEGATIVE_INFINITY;

  /** @internal */
  constructor(described: Described) {
    this.#described = described;
  }

  /** What a lock is made of; it may be anything where a method was detached from its object. */
  static #of(lock: Lock): Described {
    if (isObject(lock) && #described in lock) return lock.#described;
    throw notOurs("Lock", lock);
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
    return [...Lock.#of(this).names];
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
    return Lock.#of(this).bind().locked.key;
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
    return [...Lock.#of(this).bind().locked.keys];
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
  acquire(options?: AcquireOptions): Promise<Lease<Fencing>> {
    Lock.#of(this);
    return this.#ask(options, this.#here(this.acquire), false) as Promise<Lease<Fencing>>;
  }

  /** `once`: one round, whose answer may be null. */
  #ask(options: AcquireOptions | undefined, site: CallSite, once: boolean): Asked<Fencing> {
    if (!isHeard("acquire")) return this.#asked(options, site, once);
    return traced("acquire", this, () => this.#asked(options, site, once));
  }

  #asked(options: AcquireOptions | undefined, site: CallSite, once: boolean): Asked<Fencing> {
    return new Promise((resolve, reject) => {
      const { signal, wait }: AcquireOptions = once
        ? checked(options, TRY, "tryAcquire()")
        : checked(options, ACQUIRE, "acquire()");
      if (signal?.aborted) throw reasonOf(signal);
      const bound = Lock.#of(this).bind();
      let forget: (() => void) | undefined;
      const hear = (slot: number) => {
        if (signal !== undefined) forget = cancelOn(signal, slot, reject);
      };
      const receive = (outcome: unknown) => {
        forget?.();
        if (outcome instanceof Failed) return resolve(failing(outcome));
        if (outcome === null) return resolve(null);
        const grant = outcome as Grant;
        const again = acquireAgain(grant, receive);
        if (again === undefined) resolve(new Lease<Fencing>(grant.id, bound.locked, site, grant));
        else hearAgain(again);
      };
      const hearAgain = (slot: number) => {
        try {
          hear(slot);
        } catch (thrown) {
          reject(thrown);
        }
      };
      if (once) hear(begin((slot) => bound.native.tryAcquire(slot), receive));
      else hear(acquire(bound.number, wait, receive));
    });
  }

  /**
   * The lease, or `null` if somebody else holds it or waits for it in this process: one round. Rejects with
   * `QuorumUnavailable` when too few nodes answered, and with the signal's reason when it aborts; then no key stays behind.
   *
   * @example
   * ```js
   * const lease = await lock.tryAcquire();
   * await lock.tryAcquire(); // null
   * await lease.release();
   * ```
   */
  tryAcquire(options?: TryAcquireOptions): Promise<Lease<Fencing> | null> {
    Lock.#of(this);
    return this.#ask(options, this.#here(this.tryAcquire), true);
  }

  /**
   * Runs `body` while the lock is held, and settles as `body` does. Rejects with `LockLost` if `body` succeeded but the
   * lease was lost meanwhile; `lease.signal` tells `body` in time. An aborted `signal` stops the waiting; while `body` runs,
   * it aborts `lease.signal` with the same reason, and what to do is up to `body`.
   *
   * @example
   * ```js
   * await lock.using(async (lease) => lease.remaining > 9_000); // true
   * ```
   */
  async using<T>(body: Body<T, Fencing>, options?: AcquireOptions): Promise<T> {
    Lock.#of(this);
    return await this.run(body, options, this.using);
  }

  /** @internal */
  async run<T>(body: Body<T, Fencing>, given: AcquireOptions | undefined, below: Way): Promise<T> {
    callback(body, "using()");
    const options = checked(given, ACQUIRE, "using()");
    const acquiring = this.#ask(options, this.#here(below), false) as Promise<Lease<Fencing>>;
    return await runUnder(acquiring, body, options);
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
  async attach(token: string): Promise<Lease<false>>;
  async attach(token: string, none?: unknown): Promise<Lease<false>> {
    Lock.#of(this);
    noSignal(none, "attach()");
    return await this.continued(token, this.attach);
  }

  /** @internal */
  async continued(token: string, below: Way): Promise<Lease<false>> {
    const site = this.#here(below);
    const text = tokenText(token);
    const bound = Lock.#of(this).bind();
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
  async inspect(): Promise<Inspection>;
  async inspect(none?: unknown): Promise<Inspection> {
    noSignal(none, "inspect()");
    const bound = Lock.#of(this).bind();
    return unwrap(await settled((slot) => bound.native.inspect(slot)));
  }

  /**
   * What may be logged of it: `names`, `options`, and `key`, where a client is chosen. `util.inspect` shows the same.
   *
   * @example
   * ```js
   * JSON.stringify(client.lock("a", { ttl: 500 })); // '{"names":["a"],"key":"lock:a","options":{"ttl":500}}'
   * ```
   */
  toJSON(): { names: string[]; key?: string; options: LockOptions<Fencing> } {
    // To log a Proxy of it must not throw.
    if (!(#described in this)) return {} as never;
    const options = shownOptions(Lock.#of(this).options, LOCK) as LockOptions<Fencing>;
    const key = Lock.#of(this).known()?.locked.key;
    const found = key === undefined ? {} : { key };
    return { names: this.names, ...found, options };
  }

  /** The caller's frame. Looking it up costs more than sending the request does, so it serves for a moment. */
  #here(below: Way): CallSite {
    const at = now();
    if (this.#site === undefined || at - this.#sited > SAME_PLACE) {
      const site: CallSite = { uses: 0 };
      const limit = limitFrames(1);
      capture(site, below);
      limitFrames(limit);
      this.#site = site;
      this.#sited = at;
    }
    this.#site.uses += 1;
    return this.#site;
  }
}

printable(Lock, "Lock");
