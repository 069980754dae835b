/** The lock, which describes what to lock. */

import { InvalidOption } from "../errors/errors.js";
import type { CallSite, Method } from "../lease/call-sites.js";
import { Lease } from "../lease/lease.js";
import type { Inspection } from "../native.js";
import {
  ACQUIRE,
  type AcquireOptions,
  ANY_LOCK,
  checkOptions,
  type LockOptions,
  rejectSignal,
  shownOptions,
  TRY,
  type TryAcquireOptions,
} from "../options/options.js";
import { checkToken, isObject, noConstructor, wrongReceiver } from "../options/values.js";
import { printable, uncloneable } from "../platform/inspect-format.js";
import { cancelOn, reasonOf } from "../runtime/abort.js";
import { acquire, acquireAgain } from "../runtime/operations.js";
import { Failed } from "../runtime/pending.js";
import { failing, settled, startCall, unwrap } from "../runtime/results.js";
import type { Grant } from "../runtime/rows.js";
import { type Body, bodyOf, type OnceResult } from "../scope/body.js";
import { runUnder } from "../scope/scope.js";
import { hasSubscribers, traced } from "../telemetry/trace.js";
import type { LockDescription } from "./bound-lock.js";

type Acquiring<Fencing extends boolean> = Promise<Lease<Fencing> | null>;
/** The public method of the call, for error messages. The options of `using()` are already checked. */
type Call = "acquire()" | "tryAcquire()" | "using()";

const UNCLONEABLE = uncloneable("a lock", "Create a new one there, with its names and options");

function methodOfLease(name: string): InvalidOption {
  const rule = `a lock has no ${name}(), because it only describes what to lock`;
  return new InvalidOption(`${rule}. Call lease.${name}() of: const lease = await lock.acquire()`);
}

/**
 * A description of what to lock, with names and options. It has no state, so you can share and reuse it.
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
  readonly #description: LockDescription;

  /** @internal */
  constructor(description: LockDescription) {
    if (!(isObject(description) && typeof description.bind === "function")) {
      throw noConstructor("Lock", "client.lock(name)");
    }
    this.#description = description;
  }

  /** @internal Unlike `instanceof`, it also works for a Proxy that was revoked. */
  static isLock(value: unknown): value is Lock {
    return isObject(value) && #description in value;
  }

  /** Returns the description of a lock. Throws if a method was called on another object. */
  static #descriptionOf(lock: Lock): LockDescription {
    if (isObject(lock) && #description in lock) return lock.#description;
    throw wrongReceiver("Lock", lock);
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
    return [...Lock.#descriptionOf(this).names];
  }

  /**
   * The exact Redis key. Several keys are separated by commas. For a semaphore, without the number of a permit.
   *
   * @example
   * ```js
   * client.lock(["a", "b"]).key; // "lock:a, lock:b"
   * ```
   */
  get key(): string {
    return Lock.#descriptionOf(this).bind().key;
  }

  /**
   * The exact Redis keys, in the order of the names. Those of a semaphore are the keys of its permits.
   *
   * @example
   * ```js
   * client.lock(["a", "b"]).keys; // ["lock:a", "lock:b"]
   * ```
   */
  get keys(): string[] {
    return Lock.#descriptionOf(this).bind().keys;
  }

  /**
   * Acquires the lock. Waits until no other client holds it.
   * @param options `wait` in ms, default the lock's option. `signal`, which ends the wait.
   * @throws `LockTimeout` if `wait` ends.
   * @throws `QuorumUnavailable` if `wait` ends and too few nodes replied until then. Without a `wait`, if that lasted for
   * the client's `unavailableAfter`. An error that no retry can fix, such as a wrong password, does not wait.
   * @throws `InvalidOption`, `Unsupported` or `ClientClosed`.
   * @throws The signal's reason if it aborts. No key remains after any of these errors.
   *
   * @example
   * ```js
   * const lease = await lock.acquire({ wait: 5_000, signal: AbortSignal.timeout(6_000) });
   * await lock.acquire({ wait: 0 }).catch((error) => error.kind); // "timeout"
   * await lease.release();
   * ```
   */
  acquire(options?: AcquireOptions): Promise<Lease<Fencing>> {
    const site = Lock.#descriptionOf(this).sites.capture(this.acquire);
    return this.#acquireTraced(options, site, "acquire()") as Promise<Lease<Fencing>>;
  }

  /** @internal A lease has this method. The error says so, for example after `await lock` without `acquire()`. */
  release(): never {
    throw methodOfLease("release");
  }

  /** @internal As for `release`. */
  extend(): never {
    throw methodOfLease("extend");
  }

  /** Acquires and publishes the call on its tracing channel. Only `tryAcquire()` and `runOnce` can get null. */
  #acquireTraced(
    options: AcquireOptions | undefined,
    site: CallSite,
    call: Call,
  ): Acquiring<Fencing> {
    if (!hasSubscribers("acquire")) return this.#startAcquire(options, site, call);
    return traced("acquire", this, () => this.#startAcquire(options, site, call));
  }

  #startAcquire(given: AcquireOptions | undefined, site: CallSite, call: Call): Acquiring<Fencing> {
    return new Promise((resolve, reject) => {
      const isTry = call === "tryAcquire()";
      const options = call === "using()" ? given : checkOptions(given, isTry ? TRY : ACQUIRE, call);
      const { signal, wait }: AcquireOptions = options ?? {};
      if (signal?.aborted) throw reasonOf(signal);
      const bound = Lock.#descriptionOf(this).bind();
      let forget: (() => void) | undefined;
      const listenForAbort = (slot: number) => {
        if (signal !== undefined) forget = cancelOn(signal, slot, reject);
      };
      const receive = (outcome: unknown) => {
        forget?.();
        if (outcome instanceof Failed) return resolve(failing(outcome));
        if (outcome === null) return resolve(null);
        const grant = outcome as Grant;
        const again = acquireAgain(grant, receive);
        if (again === undefined) resolve(new Lease<Fencing>(grant.id, bound, site, grant));
        else listenAgain(again);
      };
      const listenAgain = (slot: number) => {
        try {
          listenForAbort(slot);
        } catch (thrown) {
          reject(thrown);
        }
      };
      const { native, number } = bound.shared;
      if (isTry)
        listenForAbort(startCall((slot) => native.tryAcquire(slot, bound.nativeNames), receive));
      else listenForAbort(acquire(number, bound.nativeNames, wait, receive));
    });
  }

  /**
   * Tries once to acquire the lock.
   * @param options `signal`, which ends the attempt.
   * @returns The lease, or `null` if another client holds the lock or another caller in this process waits for it.
   * @throws `QuorumUnavailable` if too few nodes reply.
   * @throws `InvalidOption`, `Unsupported` or `ClientClosed`.
   * @throws The signal's reason if it aborts. No key remains after any of these errors.
   *
   * @example
   * ```js
   * const lease = await lock.tryAcquire();
   * await lock.tryAcquire(); // null
   * await lease.release();
   * ```
   */
  tryAcquire(options?: TryAcquireOptions): Promise<Lease<Fencing> | null> {
    const site = Lock.#descriptionOf(this).sites.capture(this.tryAcquire);
    return this.#acquireTraced(options, site, "tryAcquire()");
  }

  /**
   * Runs `body` while holding the lock. Settles with the result or the error of `body`.
   *
   * An abort of `signal` ends the wait. While `body` runs, it aborts `lease.signal` with the same reason, and `body`
   * decides what to do. A loss also aborts `lease.signal`. If that makes `body` fail with an `AbortError`, the call
   * rejects with the `LockLost`, and the `AbortError` is its `cause`.
   * @param options `wait` and `signal`, as for `acquire`.
   * @param body The function to run. It receives the lease.
   * @returns The result of `body`.
   * @throws The errors of `acquire`, and the error of `body`.
   * @throws `LockLost` if the lease was lost, and `body` succeeded or was aborted by the loss.
   *
   * @example
   * ```js
   * await lock.using(async (lease) => lease.remaining > 9_000); // true
   * ```
   */
  async using<T>(body: Body<T, Fencing>): Promise<T>;
  async using<T>(options: AcquireOptions, body: Body<T, Fencing>): Promise<T>;
  async using<T>(first: AcquireOptions | Body<T, Fencing>, last?: Body<T, Fencing>): Promise<T> {
    Lock.#descriptionOf(this);
    const [options, body] = bodyOf(first, last, ACQUIRE, "using()");
    return await this.run(body, options, this.using);
  }

  /**
   * Runs `using` with options that are already checked.
   * @internal
   */
  run<T>(body: Body<T, Fencing>, options: AcquireOptions, method: Method): Promise<T> {
    return runUnder(this.acquireFrom(this.siteOf(method), options), body, options);
  }

  /** @internal Returns the call site of a public method. */
  siteOf(method: Method): CallSite {
    return Lock.#descriptionOf(this).sites.capture(method);
  }

  /** @internal Acquires for this call site, with options that are already checked. */
  acquireFrom(site: CallSite, options: AcquireOptions): Promise<Lease<Fencing>> {
    return this.#acquireTraced(options, site, "using()") as Promise<Lease<Fencing>>;
  }

  /**
   * Runs the body of `once()` with options that are already checked, unless it ran before.
   * @internal
   */
  async runOnce<T>(
    body: Body<T, Fencing>,
    options: AcquireOptions,
    method: Method,
  ): Promise<OnceResult<T>> {
    const site = Lock.#descriptionOf(this).sites.capture(method);
    const lease = await this.#acquireTraced(options, site, "using()");
    // The only acquire besides `tryAcquire()` that resolves with null.
    if (lease === null) return { ran: false, value: undefined };
    return { ran: true, value: await runUnder(lease, body, options) };
  }

  /**
   * Continues the lease that another process holds under this token.
   *
   * Both processes are then one owner, and each renews the lease. A release by either deletes the key, and the other is
   * notified of a loss. To transfer a lease, call `lease.detach()` in the first process afterwards. The first process
   * may also end without a release. The fencing token is not transferred, so send it with the token.
   * @param token The token of the lease.
   * @throws `LockLost` if the token does not hold the lock.
   * @throws `QuorumUnavailable` if too few nodes reply.
   * @throws `Unsupported` if the key has data of another type.
   * @throws `InvalidOption` or `ClientClosed`.
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
    Lock.#descriptionOf(this);
    rejectSignal(none, "attach()");
    return await this.continued(token, this.attach);
  }

  /** @internal */
  async continued(token: string, method: Method): Promise<Lease<false>> {
    const site = Lock.#descriptionOf(this).sites.capture(method);
    const text = checkToken(token);
    const bound = Lock.#descriptionOf(this).bind();
    const begin = (slot: number) => bound.shared.native.attach(slot, bound.nativeNames, text);
    return new Lease(unwrap<Grant>(await settled(begin)).id, bound, site);
  }

  /**
   * Returns a snapshot of the lock's state, as reported by each node. It may be outdated when you read it.
   * @throws `QuorumUnavailable` if fewer nodes than a quorum reply within `nodeTimeout`.
   * @throws `InvalidOption`, `Unsupported` or `ClientClosed`.
   *
   * @example
   * ```js
   * (await lock.inspect()).held; // false
   * ```
   */
  async inspect(): Promise<Inspection>;
  async inspect(none?: unknown): Promise<Inspection> {
    rejectSignal(none, "inspect()");
    const bound = Lock.#descriptionOf(this).bind();
    return unwrap(await settled((slot) => bound.shared.native.inspect(slot, bound.nativeNames)));
  }

  /**
   * Returns the data that is safe to log: `names`, `options`, and `key` after a client was chosen. `util.inspect` shows
   * the same.
   *
   * @example
   * ```js
   * JSON.stringify(client.lock("a", { ttl: 500 })); // '{"names":["a"],"key":"lock:a","options":{"ttl":500}}'
   * ```
   */
  toJSON(): { names: string[]; key?: string; options: LockOptions<Fencing> } {
    // Logging a Proxy of a lock must not throw.
    if (!(#description in this)) return {} as never;
    const options = shownOptions(
      Lock.#descriptionOf(this).options,
      ANY_LOCK,
    ) as LockOptions<Fencing>;
    const key = Lock.#descriptionOf(this).known()?.key;
    const found = key === undefined ? {} : { key };
    return { names: this.names, ...found, options };
  }
}

printable(Lock, "Lock");
