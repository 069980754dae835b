/** The read/write lock, whose sides are locks. */

import { InvalidOption } from "../errors/errors.js";
import {
  checkSide,
  type LockOptions,
  type ReaderOptions,
  type SideOptions,
} from "../options/options.js";
import { isObject, nameList, noConstructor, wrongReceiver } from "../options/values.js";
import { printable, uncloneable } from "../platform/inspect-format.js";
import type { Lock } from "./lock.js";

/** The private state of a read/write lock. */
interface Parts {
  readonly names: string[];
  /** Creates a side of a client. */
  readonly create: (names: string[], options: SideOptions) => Lock;
}

const UNCLONEABLE = uncloneable("a read/write lock", "Create a new one there, with its name");

function methodOfSide(name: string): InvalidOption {
  const rule = `a read/write lock has no ${name}(), because it has two sides`;
  return new InvalidOption(`${rule}. Call rwlock.read().${name}() or rwlock.write().${name}()`);
}

/**
 * A read/write lock: any number of readers hold it at a time, or one writer. Its sides are locks.
 *
 * @example
 * ```js
 * const config = client.rwlock("config");
 * await config.write({ ttl: 10_000 }).using(() => config.read().tryAcquire()); // null
 * ```
 */
export class RwLock {
  /** @internal */
  readonly uncloneable = UNCLONEABLE;
  readonly #parts: Parts;

  /** @internal */
  constructor(name: string, create: Parts["create"], none: unknown) {
    if (typeof create !== "function") throw noConstructor("RwLock", "client.rwlock(name)");
    if (none !== undefined) {
      const rule = "rwlock() has no options, its sides have";
      throw new InvalidOption(
        `${rule}. Use rwlock(name).read({ ... }) or rwlock(name).write({ ... })`,
      );
    }
    const names = nameList(name, "the name", "rwlock()");
    // Checks the name, and with the shortest times nothing else.
    create(names, { shared: false, ttl: 100, nodeTimeout: 50 });
    this.#parts = { names, create };
  }

  /** Returns a read/write lock. Throws if a method was called on another object. */
  static #partsOf(lock: RwLock): Parts {
    if (isObject(lock) && #parts in lock) return lock.#parts;
    throw wrongReceiver("RwLock", lock);
  }

  /**
   * The name, without the client's prefix.
   *
   * @example
   * ```js
   * client.rwlock("config").name; // "config"
   * ```
   */
  get name(): string {
    return RwLock.#partsOf(this).names[0] as string;
  }

  /**
   * Creates the lock of a reader, which other readers share. Sends nothing.
   *
   * A waiting writer comes before further readers, so do not acquire it again while you hold it: both may wait for each
   * other. A reader that dies delays a writer by its TTL and at most one second more. Fencing tokens and `minHold` are
   * not available.
   * @param options Options of the lock.
   * @throws `InvalidOption` for an invalid option.
   *
   * @example
   * ```js
   * const reader = client.rwlock("config").read({ ttl: 10_000 });
   * await reader.using(async () => (await reader.inspect()).mode); // "read"
   * ```
   */
  read(options?: ReaderOptions): Lock<false> {
    const { names, create } = RwLock.#partsOf(this);
    return create(names, checkSide(options, true)) as Lock<false>;
  }

  /**
   * Creates the lock of a writer, which excludes everyone. Sends nothing.
   *
   * `lock()` on the same name excludes readers and writers too, but takes no turns with waiting readers.
   * @param options Options of the lock.
   * @throws `InvalidOption` for an invalid option.
   *
   * @example
   * ```js
   * const lease = await client.rwlock("config").write({ fencing: true }).acquire();
   * lease.fencingToken > 0; // true
   * await lease.release();
   * ```
   */
  write<Fencing extends boolean = false>(options?: LockOptions<Fencing>): Lock<Fencing> {
    const { names, create } = RwLock.#partsOf(this);
    return create(names, checkSide(options, false)) as Lock<Fencing>;
  }

  /** @internal A side has this method. The error names the sides. */
  acquire(): never {
    throw methodOfSide("acquire");
  }

  /** @internal As for `acquire`. */
  tryAcquire(): never {
    throw methodOfSide("tryAcquire");
  }

  /** @internal As for `acquire`. */
  using(): never {
    throw methodOfSide("using");
  }

  /** @internal As for `acquire`. */
  inspect(): never {
    throw methodOfSide("inspect");
  }

  /**
   * Returns the data that is safe to log. `util.inspect` shows the same.
   *
   * @example
   * ```js
   * JSON.stringify(client.rwlock("config")); // '{"name":"config"}'
   * ```
   */
  toJSON(): { name: string } {
    // Logging a Proxy of it must not throw.
    if (!(#parts in this)) return {} as never;
    return { name: this.name };
  }
}

printable(RwLock, "RwLock");
