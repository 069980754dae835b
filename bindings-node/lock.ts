/** What to lock. */

import type { Grant } from "./batch.js";
import type { Described } from "./bound.js";
import { begin, cancelOn, failing, reasonOf, settled, unwrap } from "./calls.js";
import type { CallSite, Way } from "./collection.js";
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
import { acquire, acquireAgain } from "./runtime.js";
import { type Body, bodyOf, runUnder } from "./scope.js";
import { isHeard, traced } from "./trace.js";
import { isObject, notOurs, tokenText } from "./values.js";

type Asked<Fencing extends boolean> = Promise<Lease<Fencing> | null>;
/** Which call it is, whose options are not checked yet; `using` has checked them. */
type Call = "acquire()" | "tryAcquire()" | "using()";

const UNCLONEABLE = uncloneable("a lock", "make another one there, of its names and options");

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
    return Lock.#of(this).bind().key;
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
    return Lock.#of(this).bind().keys;
  }

  /**
   * The lease, as soon as nobody else holds the lock. Rejects with `LockTimeout` when `wait` is over, with
   * `QuorumUnavailable` when too few nodes answered all the time, with `ClientClosed`, and with the signal's reason when it
   * aborts; then no key stays behind.
   *
   * @example
   * ```js
   * const lease = await lock.acquire({ wait: 5_000, signal: AbortSignal.timeout(6_000) });
   * await lock.acquire({ wait: 0 }).catch((error) => error.kind); // "timeout"
   * await lease.release();
   * ```
   */
  acquire(options?: AcquireOptions): Promise<Lease<Fencing>> {
    const site = Lock.#of(this).sites.here(this.acquire);
    return this.#ask(options, site, "acquire()") as Promise<Lease<Fencing>>;
  }

  /** Only the answer to `tryAcquire()` may be null. */
  #ask(options: AcquireOptions | undefined, site: CallSite, call: Call): Asked<Fencing> {
    if (!isHeard("acquire")) return this.#asked(options, site, call);
    return traced("acquire", this, () => this.#asked(options, site, call));
  }

  #asked(given: AcquireOptions | undefined, site: CallSite, call: Call): Asked<Fencing> {
    return new Promise((resolve, reject) => {
      const once = call === "tryAcquire()";
      const options = call === "using()" ? given : checked(given, once ? TRY : ACQUIRE, call);
      const { signal, wait }: AcquireOptions = options ?? {};
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
        if (again === undefined) resolve(new Lease<Fencing>(grant.id, bound, site, grant));
        else hearAgain(again);
      };
      const hearAgain = (slot: number) => {
        try {
          hear(slot);
        } catch (thrown) {
          reject(thrown);
        }
      };
      const { native, number } = bound.shared;
      if (once) hear(begin((slot) => native.tryAcquire(slot, bound.named), receive));
      else hear(acquire(number, bound.named, wait, receive));
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
    const site = Lock.#of(this).sites.here(this.tryAcquire);
    return this.#ask(options, site, "tryAcquire()");
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
  async using<T>(body: Body<T, Fencing>): Promise<T>;
  async using<T>(options: AcquireOptions, body: Body<T, Fencing>): Promise<T>;
  async using<T>(first: AcquireOptions | Body<T, Fencing>, last?: Body<T, Fencing>): Promise<T> {
    Lock.#of(this);
    const [options, body] = bodyOf(first, last, ACQUIRE, "using()");
    return await this.run(body, options, this.using);
  }

  /**
   * `using`, with options that are checked.
   * @internal
   */
  run<T>(body: Body<T, Fencing>, options: AcquireOptions, below: Way): Promise<T> {
    const site = Lock.#of(this).sites.here(below);
    const acquiring = this.#ask(options, site, "using()") as Promise<Lease<Fencing>>;
    return runUnder(acquiring, body, options);
  }

  /**
   * Continues the lease that another process holds under this token. Rejects with `LockLost` if it is not held.
   *
   * Both are one owner then, and each renews for itself. A release by either deletes the key: the other one is told of a
   * loss. So whoever hands a lease over ends its own by `lease.detach()`; a process that ends without a release does no
   * harm either. The fencing token does not come with the lease: hand it over with the token.
   *
   * @example
   * ```js
   * const ours = await lock.acquire();
   * const theirs = await lock.attach(ours.token); // as a rule in another process
   * ours.detach(); // true
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
    const site = Lock.#of(this).sites.here(below);
    const text = tokenText(token);
    const bound = Lock.#of(this).bind();
    const begin = (slot: number) => bound.shared.native.attach(slot, bound.named, text);
    return new Lease(unwrap<Grant>(await settled(begin)).id, bound, site);
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
    return unwrap(await settled((slot) => bound.shared.native.inspect(slot, bound.named)));
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
    const key = Lock.#of(this).known()?.key;
    const found = key === undefined ? {} : { key };
    return { names: this.names, ...found, options };
  }
}

printable(Lock, "Lock");
