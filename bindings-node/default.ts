/** The default client, behind the module's own functions. */

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

/** How often the default client was chosen: the locks that were made before look it up again. */
let choice = 0;
/** What the default client's connections ask for credentials. */
let kept: Kept | undefined;

/**
 * Chooses the nodes behind `lock()` and `withLock()`: without it, those of REDLOCK_NODES, else REDIS_URL, else
 * redis://127.0.0.1:6379. The options are those of `Redlock`. Throws `InvalidOption` for a value that breaks a rule, and
 * once they are in use, unless `replace` is true.
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
 * Describes a lock of the default client, which is looked up at each acquire: see `configure`. Throws `InvalidOption`.
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

/** Sets of options of the default client, which is looked up at each use. */
const sets = new ByOptions<DefaultSet>();

class DefaultSet {
  readonly sites = new Sites();
  #last: { choice: number; shared: Shared } | undefined;

  constructor(readonly options: LockOptions) {}

  /** Of the configured client, else of the one that REDLOCK_NODES or REDIS_URL names, else of Redis on this machine. */
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
  // They are checked now, though no client is chosen yet: a mistake shows where it was made.
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
  // Printing it chooses no client.
  const known = () => (last?.choice === choice ? last.bound : undefined);
  return new Lock<Fencing>({ names, options, sites: set.sites, bind, known });
}

/**
 * Runs `body` while holding a lock of the default client. Settles as `body` does: see `Redlock.using`.
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
