/** Help for tests of programs that lock: a client of a test's own, and what can go wrong, at will. */

import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { type Lease, type LockOptions, Redlock, type RedlockOptions } from "./index.js";
import { advanceMemory, failMemory } from "./native.js";

/** How long (ms) `lose` and `advance` wait at most until holders have been told. */
const TOLD = 1_000;

/** Ends when the lease is lost. */
function loss(lease: Lease): Promise<void> {
  return new Promise((done) => lease.onLost(() => done()));
}

/** A wait for losses keeps no process alive, and never ends for a lease that is released meanwhile. */
async function allOrLate(told: Promise<void>[]): Promise<void> {
  const stop = new AbortController();
  const late = sleep(TOLD, undefined, { signal: stop.signal }).catch(() => undefined);
  await Promise.race([Promise.all(told), late]);
  stop.abort();
}

/**
 * A client over a node in this process that nobody else has, for one test. Its `nodes` may be given to other clients and to
 * `configure`, so that they share it.
 *
 * @example
 * ```js
 * const redlock = new TestRedlock();
 * await redlock.hold("job");
 * await redlock.lock("job").tryAcquire(); // null
 * await redlock.shutdown();
 * ```
 */
export class TestRedlock extends Redlock {
  readonly #node: string;
  readonly #other: Redlock;

  /** The options are those of `Redlock`. */
  constructor(options?: RedlockOptions) {
    const node = `test-${randomUUID()}`;
    super(`memory://${node}`, options);
    this.#node = node;
    this.#other = new Redlock(`memory://${node}`, options);
  }

  /**
   * Somebody else holds the lock from now on: the lease is another client's, which `release()` lets go. Rejects with
   * `LockTimeout` if the lock is held already.
   *
   * @example
   * ```js
   * const theirs = await redlock.hold("job");
   * await redlock.lock("job", { wait: 0 }).acquire().catch((error) => error.kind); // "timeout"
   * await theirs.release();
   * ```
   */
  async hold(names: string | readonly string[], options?: LockOptions): Promise<Lease<false>> {
    return (await this.#other.lock(names, options).acquire({ wait: 0 })) as Lease<false>;
  }

  /**
   * Whoever holds the lock loses it now; leases of this client have been told when it resolves. True if somebody held it.
   *
   * @example
   * ```js
   * const lease = await redlock.lock("job").acquire();
   * await redlock.lose("job"); // true
   * lease.signal.reason.reason; // "missing"
   * ```
   */
  async lose(names: string | readonly string[]): Promise<boolean> {
    const { keys } = this.lock(names);
    const held = this.leases().filter((lease) => lease.keys.some((key) => keys.includes(key)));
    const told = held.map(loss);
    const there = await this.forceRelease(names);
    await allOrLate(told);
    return there;
  }

  /**
   * So much time (ms) passes at once, as on a machine that was suspended: whoever has less left loses the lock, renewed or not, and
   * leases of this client have been told when it resolves. Waits that are under way end so much earlier.
   *
   * @example
   * ```js
   * const lease = await redlock.lock("job", { ttl: 10_000 }).acquire();
   * await redlock.advance(10_000);
   * lease.signal.reason.reason; // "expired"
   * ```
   */
  async advance(ms: number): Promise<void> {
    const held = this.leases();
    const told = held.map(loss);
    advanceMemory(this.#node, ms);
    await allOrLate(told.filter((_, at) => !held[at]?.held));
  }

  /**
   * No node answers from now on, until `recover()`: acquires reject with `QuorumUnavailable` once their `wait` is over, and
   * leases that are not renewed end with their ttl.
   *
   * @example
   * ```js
   * redlock.fail();
   * await redlock.lock("job", { wait: 0 }).acquire().catch((error) => error.kind); // "unavailable"
   * ```
   */
  fail(): void {
    failMemory(this.#node, true);
  }

  /**
   * The node answers again.
   *
   * @example
   * ```js
   * redlock.fail();
   * redlock.recover();
   * await redlock.lock("job").using((lease) => lease.held); // true
   * ```
   */
  recover(): void {
    failMemory(this.#node, false);
  }

  /** As of `Redlock`; the node recovers, and what `hold` gave ends. */
  override async shutdown(timeout?: number): Promise<number> {
    this.recover();
    this.#other.close();
    return await super.shutdown(timeout);
  }

  /** As of `Redlock`; the node recovers, and what `hold` gave ends. */
  override close(): void {
    this.recover();
    this.#other.close();
    super.close();
  }
}
