/** The default client, which the functions of the module use. */

import { Bound, ByOptions, isUsual, Shared } from "./bound.js";
import { attempt } from "./calls.js";
import { Sites } from "./collection.js";
import type { Kept } from "./credentials.js";
import { Lock } from "./lock.js";
import { checkLock } from "./native.js";
import {
  CONFIGURE,
  checked,
  LOCK,
  type LockOptions,
  nativeOptions,
  type RedlockOptions,
  USING,
  type UsingOptions,
} from "./options.js";
import { native } from "./runtime.js";
import { type Body, bodyOf } from "./scope.js";
import { NODES, nameList } from "./values.js";

/** Counts how often the default client was chosen. Existing locks look it up again after a change. */
let choice = 0;
/** Keeps the `credentials` function alive for the default client's connections. */
let kept: Kept | undefined;

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
  nodes: string | readonly string[],
  options?: RedlockOptions & { replace?: boolean | undefined },
): void {
  const { replace = false, ...rest } = checked(options, CONFIGURE, "configure()");
  const urls = nameList(nodes, NODES, "configure()");
  const [args, credentials] = nativeOptions(rest);
  attempt(() => native().configure(urls, args, replace));
  kept = credentials;
  choice += 1;
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
  const list = nameList(names, "the name", "lock()");
  return described(list, checked(options, LOCK, "lock()"));
}

/** The option sets of the default client. */
const sets = new ByOptions<DefaultSet>();

class DefaultSet {
  readonly sites = new Sites();
  #last: { choice: number; shared: Shared } | undefined;

  constructor(readonly options: LockOptions) {}

  /**
   * Returns the options with the default client. This is the configured client, or else the one that `REDLOCK_NODES` or
   * `REDIS_URL` names, or else Redis on this machine.
   */
  bind(names: string[]): Shared {
    const last = this.#last;
    if (last?.choice === choice) {
      last.shared.check(names);
      return last.shared;
    }
    const { REDLOCK_NODES, REDIS_URL } = process.env;
    const make = () => native().defaultOptionSet(names, this.options, REDLOCK_NODES, REDIS_URL);
    const shared = new Shared(attempt(make), this.options, kept);
    this.#last = { choice, shared };
    return shared;
  }
}

function described<Fencing extends boolean>(names: string[], options: LockOptions): Lock<Fencing> {
  // Check the options now, although no client is chosen yet. The error then points to the line with the mistake.
  const check = () => attempt(() => checkLock(names, options));
  const set = sets.of(options, () => {
    check();
    return new DefaultSet(options);
  });
  if (!isUsual(names)) check();
  let last: { choice: number; bound: Bound } | undefined;
  const bind = () => {
    if (last?.choice !== choice) last = { choice, bound: new Bound(set.bind(names), names) };
    return last.bound;
  };
  // Printing a lock must not choose a client.
  const known = () => (last?.choice === choice ? last.bound : undefined);
  return new Lock<Fencing>({ names, options, sites: set.sites, bind, known });
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
  return await described(list, options).run(body, { signal }, withLock);
}
