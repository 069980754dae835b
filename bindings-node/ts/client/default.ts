/** The default client, which the functions of the module use. */

import { CallSites } from "../lease/call-sites.js";
import { BoundLock, isAlwaysValid, OptionCache, SharedOptions } from "../lock/bound-lock.js";
import { describeLeader, describeLock, describeOnce, describeSemaphore } from "../lock/describe.js";
import type { Leader } from "../lock/leader.js";
import { Lock } from "../lock/lock.js";
import type { Once } from "../lock/once.js";
import { RwLock } from "../lock/rwlock.js";
import { checkLock } from "../native.js";
import type { CallbacksHandle } from "../options/callbacks.js";
import {
  CONFIGURE,
  checkOptions,
  type LeaderOptions,
  type LockOptions,
  nativeOptions,
  type OnceOptions,
  type RedlockOptions,
  type SemaphoreOptions,
  USING,
  type UsingOptions,
} from "../options/options.js";
import { NODES, nameList } from "../options/values.js";
import { defaultTrust } from "../platform/trust.js";
import { attempt } from "../runtime/results.js";
import { native } from "../runtime/runtime.js";
import { type Body, bodyOf } from "../scope/body.js";

/** Counts how often the default client was chosen. Existing locks look it up again after a change. */
let generation = 0;
/** Keeps the functions of the options alive for the default client's connections. */
let keepAlive: CallbacksHandle | undefined;

/**
 * Sets the nodes of the default client, which `lock()` and `withLock()` use.
 *
 * Without this call they are those of `REDLOCK_NODES`, then `REDIS_URL`, then `redis://127.0.0.1:6379`.
 * @param nodes One URL or several, as for `Redlock`.
 * @param options The options of `Redlock`, and `replace`, default false. With true it replaces a default client that is
 * in use.
 * @throws `InvalidOption` for an invalid value, and for a default client that is in use, unless `replace` is true.
 *
 * @example
 * ```js
 * configure(["memory://"], { replace: true });
 * lock("job").key; // "lock:job"
 * ```
 */
export function configure(
  nodes: string | URL | readonly (string | URL)[],
  options?: RedlockOptions & { replace?: boolean | undefined },
): void {
  const { replace = false, ...rest } = checkOptions(options, CONFIGURE, "configure()");
  const urls = nameList(nodes, NODES, "configure()");
  const [args, credentials] = nativeOptions(rest, urls);
  attempt(() => native().configure(urls, args, replace));
  keepAlive = credentials;
  generation += 1;
}

/**
 * Creates a lock of the default client, which is looked up at each acquire.
 * @param names One name, or up to 1,000 names that the lock holds together.
 * @param options Options of the lock.
 * @throws `InvalidOption` for an invalid name or option.
 *
 * @example
 * ```js
 * const lease = await lock("job", { ttl: 10_000 }).acquire();
 * await lease.release();
 * ```
 */
export function lock<Fencing extends boolean = false>(
  names: string | readonly string[],
  options?: LockOptions<Fencing>,
): Lock<Fencing> {
  return describeLock(createLock, names, options);
}

/**
 * Creates a semaphore of the default client, which is looked up at each acquire: at most `limit` of its permits have
 * owners at a time.
 * @param name The name.
 * @param options Options of the semaphore. `limit` is required.
 * @throws `InvalidOption` for an invalid name or option.
 *
 * @example
 * ```js
 * await semaphore("exports", { limit: 2 }).using((lease) => lease.keys.length); // 1
 * ```
 */
export function semaphore(name: string, options: SemaphoreOptions): Lock<false> {
  return describeSemaphore(createLock, name, options);
}

/**
 * Creates a read/write lock of the default client, which is looked up at each acquire: any number of readers hold it at a
 * time, or one writer.
 * @param name The name.
 * @throws `InvalidOption` for an invalid name.
 *
 * @example
 * ```js
 * await rwlock("config").read({ ttl: 10_000 }).using((lease) => lease.held); // true
 * ```
 */
export function rwlock(name: string): RwLock;
export function rwlock(name: string, none?: unknown): RwLock {
  return new RwLock(name, createLock, none);
}

/**
 * Creates a run of the default client, which is looked up at each call. It happens once in the time `remember`, over
 * all clients.
 * @param name The name.
 * @param options Options of the run. `remember` is required.
 * @throws `InvalidOption` for an invalid name or option.
 *
 * @example
 * ```js
 * await once("payment:42", { remember: 86_400_000 }).run(() => 7); // { ran: true, value: 7 }
 * ```
 */
export function once(name: string, options: OnceOptions): Once {
  return describeOnce(createLock, name, options);
}

/**
 * Creates a candidate of the default client, which is looked up at each call. At most one candidate of an election
 * leads at a time, over all clients.
 * @param name The name.
 * @param options Options of the candidate.
 * @throws `InvalidOption` for an invalid name or option.
 *
 * @example
 * ```js
 * await leader("scheduler", { ttl: 10_000 }).run(async ({ signal }) => "led"); // "led"
 * ```
 */
export function leader<Fencing extends boolean = false>(
  name: string,
  options?: LeaderOptions<Fencing>,
): Leader<Fencing> {
  return describeLeader(createLock, name, options);
}

/** The option sets of the default client. */
const sets = new OptionCache<DefaultSet>();

class DefaultSet {
  readonly sites = new CallSites();
  #last: { generation: number; shared: SharedOptions } | undefined;

  constructor(readonly options: LockOptions) {}

  /**
   * Returns the options with the default client. This is the configured client, or else the one that `REDLOCK_NODES` or
   * `REDIS_URL` names, or else Redis on this machine.
   */
  bind(names: string[]): SharedOptions {
    const last = this.#last;
    if (last?.generation === generation) {
      last.shared.check(names);
      return last.shared;
    }
    const { REDLOCK_NODES, REDIS_URL } = process.env;
    const trust = defaultTrust(REDLOCK_NODES, REDIS_URL);
    const nodes = { redlockNodes: REDLOCK_NODES, redisUrl: REDIS_URL, trust };
    const make = () => native().defaultOptionSet(names, this.options, nodes);
    const shared = new SharedOptions(attempt(make), this.options, keepAlive);
    this.#last = { generation, shared };
    return shared;
  }
}

function createLock<Fencing extends boolean>(names: string[], options: LockOptions): Lock<Fencing> {
  // Check the options now, although no client is chosen yet. The error then points to the line with the mistake.
  const check = () => attempt(() => checkLock(names, options));
  const shared = sets.getOrCreate(options, () => {
    check();
    return new DefaultSet(options);
  });
  if (!isAlwaysValid(names)) check();
  let last: { generation: number; bound: BoundLock } | undefined;
  const bind = () => {
    if (last?.generation !== generation)
      last = { generation, bound: new BoundLock(shared.bind(names), names) };
    return last.bound;
  };
  // Printing a lock must not choose a client.
  const known = () => (last?.generation === generation ? last.bound : undefined);
  return new Lock<Fencing>({ names, options, sites: shared.sites, bind, known });
}

/**
 * Runs `body` while holding a lock of the default client.
 * @param names One name or several.
 * @param options Options of the lock, and a `signal`.
 * @param body The function to run. It receives the lease.
 * @returns The result of `body`.
 * @throws The same errors as `Lock.using`.
 *
 * @example
 * ```js
 * await withLock("job", { wait: 0 }, () => "done"); // "done"
 * ```
 */
export function withLock<T>(names: string | readonly string[], body: Body<T, false>): Promise<T>;
export function withLock<T, Fencing extends boolean = false>(
  names: string | readonly string[],
  options: UsingOptions<Fencing>,
  body: Body<T, Fencing>,
): Promise<T>;
export async function withLock<T>(
  names: string | readonly string[],
  second: UsingOptions | Body<T>,
  third?: Body<T>,
): Promise<T> {
  const [{ signal, ...options }, body] = bodyOf(second, third, USING, "withLock()");
  const list = nameList(names, "the name", "withLock()");
  return await createLock(list, options).run(body, { signal }, withLock);
}
