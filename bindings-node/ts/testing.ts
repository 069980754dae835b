/** A client for tests of programs that use locks, with methods that cause failures. */

import { randomUUID } from "node:crypto";
import { performance } from "node:perf_hooks";
import timers from "node:timers/promises";
import { inspect } from "node:util";
import {
  InvalidOption,
  type Lease,
  Lock,
  type LockOptions,
  Redlock,
  type RedlockOptions,
  type SemaphoreOptions,
} from "./index.js";
import { advanceMemory, failMemory } from "./native.js";

/** Maximum time, in ms, that `lose` and `advance` wait until holders are notified. */
const NOTIFY_TIMEOUT = 1_000;

/** Read once, because the test may replace the timers of Node.js. */
const { setTimeout: sleep } = timers;
const now = performance.now.bind(performance);

/** A wait for the loss of a lease. */
interface LossWait {
  readonly lease: Lease;
  readonly lost: Promise<void>;
  /** Ends the wait. While it lasts, the loss causes no warning. */
  readonly end: () => void;
}

function waitForLoss(lease: Lease): LossWait {
  let end = () => {};
  const lost = new Promise<void>((done) => {
    end = lease.onLost(() => done());
  });
  return { lease, lost, end };
}

/**
 * Runs `work`, then waits for the losses of those leases that `isLost` selects, at most `NOTIFY_TIMEOUT`. A wait for a
 * loss does not keep the process alive, and never ends if the lease is released.
 */
async function afterLosses<T>(
  leases: Lease[],
  work: () => T | Promise<T>,
  isLost: (lease: Lease) => boolean,
): Promise<T> {
  const waits = leases.map(waitForLoss);
  const stop = new AbortController();
  try {
    const result = await work();
    const losses = waits.filter(({ lease }) => isLost(lease)).map(({ lost }) => lost);
    const late = sleep(NOTIFY_TIMEOUT, undefined, { signal: stop.signal }).catch(() => undefined);
    await Promise.race([Promise.all(losses), late]);
    return result;
  } finally {
    stop.abort();
    for (const { end } of waits) end();
  }
}

/**
 * Checks a time, and runs `advance` with it. The error class is that of the bundled index: an import of `errors.js`
 * would load another copy of it.
 */
async function checkTime(ms: number, advance: () => void | Promise<void>): Promise<void> {
  if (typeof ms !== "number") {
    const rule = "ms must be a number of milliseconds, 0 or more";
    throw new InvalidOption(`${rule} (got ${inspect(ms)})`);
  }
  try {
    await advance();
  } catch (failure) {
    throw new InvalidOption((failure as Error).message);
  }
}

/** Repeats a check until it is true. Rejects with the text of `what` at the timeout. */
async function until(
  check: () => boolean | Promise<boolean>,
  timeout: number,
  what: () => string,
): Promise<void> {
  const end = now() + timeout;
  while (!(await check())) {
    if (now() >= end) throw new Error(what());
    await sleep(1);
  }
}

/**
 * A client for one test. Its node is in this process, and no other client uses it.
 *
 * Pass its `nodes` to other clients and to `configure` so that they share the node.
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
  /** The leases from `hold`. A lease that no variable refers to must not be collected, because that ends its renewal. */
  readonly #theirs = new Set<Lease>();

  /**
   * Creates a client.
   * @param options Options of `Redlock`.
   * @throws `InvalidOption` for an invalid option.
   */
  constructor(options?: RedlockOptions) {
    const node = `test-${randomUUID()}`;
    super(`memory://${node}`, options);
    this.#node = node;
    this.#other = new Redlock(`memory://${node}`, options);
  }

  /**
   * Acquires the lock as another client.
   * @param names One name or several, or a lock, whose options apply too.
   * @param options Options of the lock.
   * @returns The lease of the other client. Its `release()` frees the lock.
   * @throws `LockTimeout` if the lock is already held.
   *
   * @example
   * ```js
   * const theirs = await redlock.hold("job");
   * await redlock.lock("job", { wait: 0 }).acquire().catch((error) => error.kind); // "timeout"
   * await theirs.release();
   * ```
   */
  async hold(
    names: string | readonly string[] | Lock,
    options?: LockOptions,
  ): Promise<Lease<false>> {
    const lease = (await this.#lockOfOther(names, options).acquire({ wait: 0 })) as Lease<false>;
    for (const earlier of this.#theirs) if (!earlier.held) this.#theirs.delete(earlier);
    this.#theirs.add(lease);
    return lease;
  }

  #lockOfOther(names: string | readonly string[] | Lock, options?: LockOptions): Lock {
    if (!(names instanceof Lock)) return this.#other.lock(names, options);
    const { names: list, options: own } = names.toJSON();
    const all = { ...own, ...options };
    const [name = ""] = list;
    if ("limit" in all) return this.#other.semaphore(name, all as SemaphoreOptions);
    if (!("shared" in all)) return this.#other.lock(list, all);
    const { shared, ...rest } = all;
    return shared ? this.#other.rwlock(name).read(rest) : this.#other.rwlock(name).write(rest);
  }

  /**
   * Makes the current holder lose the lock. Leases of this client are notified before this resolves.
   * @param names One name or several, or a lock. Of a semaphore, every owner loses its permits.
   * @returns Whether any node had a key of the lock.
   *
   * @example
   * ```js
   * const lease = await redlock.lock("job").acquire();
   * await redlock.lose("job"); // true
   * lease.signal.reason.reason; // "missing"
   * ```
   */
  async lose(names: string | readonly string[] | Lock): Promise<boolean> {
    const { keys } = names instanceof Lock ? names : this.lock(names);
    const held = this.leases().filter((lease) => lease.keys.some((key) => keys.includes(key)));
    return await afterLosses(
      held,
      () => this.forceRelease(names),
      () => true,
    );
  }

  /**
   * Advances time from one deadline to the next. Leases are renewed on the way.
   *
   * Leases that are not renewed or reach `maxHold` are lost, and waits end when they are over. Leases of this client are
   * notified before this resolves.
   * @param ms The time in ms.
   * @throws `InvalidOption` for an invalid time.
   *
   * @example
   * ```js
   * const lease = await redlock.lock("job", { ttl: 10_000, maxHold: 60_000 }).acquire();
   * await redlock.advance(50_000);
   * lease.held; // true
   * await redlock.advance(10_000);
   * lease.signal.reason.reason; // "max_hold"
   * ```
   */
  async advance(ms: number): Promise<void> {
    await afterLosses(
      this.leases(),
      () => checkTime(ms, () => this.stepNode(this.#node, ms)),
      (lease) => !lease.held,
    );
  }

  /**
   * Lets time pass at once, as on a machine that was suspended.
   *
   * Leases with less time left are lost, even if they are renewed. Leases of this client are notified before this
   * resolves. Waits in progress end that much earlier.
   * @param ms The time in ms.
   * @throws `InvalidOption` for an invalid time.
   *
   * @example
   * ```js
   * const lease = await redlock.lock("job", { ttl: 10_000 }).acquire();
   * await redlock.jump(10_000);
   * lease.signal.reason.reason; // "expired"
   * ```
   */
  async jump(ms: number): Promise<void> {
    await afterLosses(
      this.leases(),
      () => checkTime(ms, () => advanceMemory(this.#node, ms)),
      (lease) => !lease.held,
    );
  }

  /**
   * Waits until this many acquires of this client are under way.
   * @param count The number of acquires, by default 1.
   * @param timeout Maximum time to wait, in ms, by default 10,000.
   * @throws An error if fewer are under way at the timeout.
   *
   * @example
   * ```js
   * const theirs = await redlock.hold("job");
   * const waits = redlock.lock("job").acquire();
   * await redlock.untilWaiting();
   * await theirs.release();
   * (await waits).held; // true
   * ```
   */
  async untilWaiting(count = 1, timeout = 10_000): Promise<void> {
    const waiting = () => this.stats().waiting;
    const what = () => `${waiting()} acquires are under way, fewer than ${count}`;
    await until(() => waiting() >= count, timeout, what);
  }

  /**
   * Waits until the lock is held, by any client.
   * @param names One name or several, or a lock.
   * @param timeout Maximum time to wait, in ms, by default 10,000.
   * @throws An error if the lock is not held at the timeout.
   *
   * @example
   * ```js
   * await redlock.hold("job");
   * await redlock.untilHeld("job");
   * ```
   */
  async untilHeld(names: string | readonly string[] | Lock, timeout = 10_000): Promise<void> {
    const lock = names instanceof Lock ? names : this.lock(names);
    await until(
      async () => (await lock.inspect()).held,
      timeout,
      () => `${lock.key}: not held`,
    );
  }

  /**
   * Makes the node fail until `recover()` is called. Acquires reject with `QuorumUnavailable` when their `wait` ends,
   * or without a `wait` after `unavailableAfter`.
   * Leases expire when their TTL ends, because they cannot be renewed.
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
   * Makes the node work again.
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

  /** Shuts the client down as `Redlock` does. The node recovers, and leases from `hold` end. */
  override async shutdown(timeout?: number): Promise<number> {
    this.#endOther();
    return await super.shutdown(timeout);
  }

  /** Closes the client as `Redlock` does. The node recovers, and leases from `hold` end. */
  override close(): void {
    this.#endOther();
    super.close();
  }

  #endOther(): void {
    this.recover();
    // Otherwise the end of each test would log a loss.
    for (const lease of this.#theirs) lease.detach();
    this.#other.close();
    this.#theirs.clear();
  }
}
