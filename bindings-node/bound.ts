/** What a lock is made of: names, and a set of options that it shares with other locks. */

import type { Names } from "./batch.js";
import { attempt } from "./calls.js";
import { Sites } from "./collection.js";
import type { Kept } from "./credentials.js";
import type { Locked } from "./handle.js";
import type { OptionSet } from "./native.js";
import { LOCK, type LockOptions } from "./options.js";

/**
 * What a lock is made of.
 * @internal
 */
export interface Described {
  readonly names: readonly string[];
  readonly options: LockOptions;
  /** Where its acquires are called. */
  readonly sites: Sites;
  /** The default client is looked up at each use. */
  bind(): Bound;
  /** As `bind`, but it chooses no client. */
  known(): Bound | undefined;
}

/**
 * Values by the options that they were made for. A program makes many locks with few sets of options.
 * @internal
 */
export class ByOptions<T> {
  readonly #known = new Map<string, T>();

  /** The value for these options, which `make` makes if it is not known. */
  of(options: LockOptions, make: () => T): T {
    let key = "";
    for (const name in LOCK) key += `${options[name as keyof LockOptions]},`;
    let value = this.#known.get(key);
    if (value === undefined) {
      value = make();
      // Options that differ in each lock, as a calculated `wait`.
      if (this.#known.size === MOST) this.#known.clear();
      this.#known.set(key, value);
    }
    return value;
  }
}

/** The limit of known sets. */
const MOST = 64;

/**
 * Whether core has no rule against this name, whatever its client and options are. Only other names are shown to it when the
 * lock is made: the rules are about length, several names, and the hash tags of a cluster.
 */
export function isUsual(names: readonly string[]): boolean {
  const [name = ""] = names;
  return names.length === 1 && name !== "" && name.length < 10_000 && !name.includes("}");
}

/**
 * The options of locks of one client.
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
    /** What its client's connections ask for credentials. */
    readonly kept: Kept | undefined,
  ) {
    this.number = native.number;
    this.ttl = native.ttl;
    this.prefix = native.keyPrefix;
    this.#usual = !this.prefix.includes("}");
  }

  /** Throws if core has a rule against these names. */
  check(names: string[]): void {
    if (!this.#usual || !isUsual(names)) attempt(() => this.native.check(names));
  }
}

/**
 * A lock of one client.
 * @internal
 */
export class Bound implements Described, Locked {
  /** Of several names all keys, with commas between. */
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

  /** As the native part takes them: most locks have one. */
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
