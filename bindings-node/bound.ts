/** Names and a set of options, which locks share. Together they make a lock. */

import type { Names } from "./batch.js";
import { attempt } from "./calls.js";
import { Sites } from "./collection.js";
import type { Kept } from "./credentials.js";
import type { Locked } from "./handle.js";
import type { OptionSet } from "./native.js";
import { LOCK, type LockOptions } from "./options.js";

/**
 * The description of a lock.
 * @internal
 */
export interface Described {
  readonly names: readonly string[];
  readonly options: LockOptions;
  /** The call sites of its acquires. */
  readonly sites: Sites;
  /** Returns the lock of its client. The default client is looked up at each use. */
  bind(): Bound;
  /** The same as `bind`, but does not choose a client. */
  known(): Bound | undefined;
}

/**
 * Values by lock options. A program creates many locks with few different sets of options.
 * @internal
 */
export class ByOptions<T> {
  readonly #known = new Map<string, T>();

  /** Returns the value for these options. Creates it with `make` at the first use. */
  of(options: LockOptions, make: () => T): T {
    let key = "";
    for (const name in LOCK) key += `${options[name as keyof LockOptions]},`;
    let value = this.#known.get(key);
    if (value === undefined) {
      value = make();
      // Options that differ for each lock, such as a computed `wait`, must not fill the memory.
      if (this.#known.size === MOST) this.#known.clear();
      this.#known.set(key, value);
    }
    return value;
  }
}

/** Maximum number of option sets. */
const MOST = 64;

/**
 * Returns whether core accepts this name with every client and options.
 *
 * Core only checks other names when the lock is created. Its rules are about length, several names, and hash tags of a
 * cluster.
 */
export function isUsual(names: readonly string[]): boolean {
  const [name = ""] = names;
  return names.length === 1 && name !== "" && name.length < 10_000 && !name.includes("}");
}

/**
 * The options of a client's locks.
 * @internal
 */
export class Shared {
  readonly sites = new Sites();
  readonly number: number;
  readonly ttl: number;
  readonly prefix: string;
  readonly #usual: boolean;

  constructor(
    readonly native: OptionSet,
    readonly options: LockOptions,
    /** Keeps the `credentials` function alive for the client's connections. */
    readonly kept: Kept | undefined,
  ) {
    this.number = native.number;
    this.ttl = native.ttl;
    this.prefix = native.keyPrefix;
    this.#usual = !this.prefix.includes("}");
  }

  /** Throws if core rejects these names. */
  check(names: string[]): void {
    if (!this.#usual || !isUsual(names)) attempt(() => this.native.check(names));
  }
}

/**
 * A lock of one client.
 * @internal
 */
export class Bound implements Described, Locked {
  /** Several keys are separated by commas. */
  readonly key: string;

  constructor(
    readonly shared: Shared,
    readonly names: string[],
  ) {
    this.key = names.length === 1 ? shared.prefix + names[0] : this.keys.join(", ");
  }

  get keys(): string[] {
    return this.names.map((name) => this.shared.prefix + name);
  }

  /** The names in the form that the native part expects. Most locks have one. */
  get named(): Names {
    return this.names.length === 1 ? (this.names[0] as string) : this.names;
  }

  get options(): LockOptions {
    return this.shared.options;
  }

  get sites(): Sites {
    return this.shared.sites;
  }

  get ttl(): number {
    return this.shared.ttl;
  }

  get kept(): Kept | undefined {
    return this.shared.kept;
  }

  bind(): Bound {
    return this;
  }

  known(): Bound {
    return this;
  }
}
