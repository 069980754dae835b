/** A lock of one client: its names, and a set of options that several locks share. */

import { CallSites } from "../lease/call-sites.js";
import type { LockInfo } from "../lease/handle.js";
import type { OptionSet } from "../native.js";
import type { CallbacksHandle } from "../options/callbacks.js";
import { type LockOptions, type Rules, rulesFor } from "../options/options.js";
import { attempt } from "../runtime/results.js";
import type { Names } from "../runtime/rows.js";

/**
 * The description of a lock.
 * @internal
 */
export interface LockDescription {
  readonly names: readonly string[];
  readonly options: LockOptions;
  /** The call sites of its acquires. */
  readonly sites: CallSites;
  /** Returns the lock of its client. The default client is looked up at each use. */
  bind(): BoundLock;
  /** The same as `bind`, but does not choose a client. */
  known(): BoundLock | undefined;
}

/**
 * Values by lock options. A program creates many locks with few different sets of options.
 * @internal
 */
export class OptionCache<T> {
  /** A map for each primitive, because a lock has fewer options to compare. */
  readonly #known = new Map<Rules, Map<string, T>>();

  /** Returns the value for these options. Creates it with `make` at the first use. */
  getOrCreate(options: LockOptions, make: () => T): T {
    const rules = rulesFor(options);
    let known = this.#known.get(rules);
    if (known === undefined) {
      known = new Map();
      this.#known.set(rules, known);
    }
    let key = "";
    for (const name in rules) {
      const value = options[name as keyof LockOptions];
      // The label "true" differs from the label of the process.
      key += typeof value === "string" ? `"${value}",` : `${value},`;
    }
    let value = known.get(key);
    if (value === undefined) {
      value = make();
      // Options that differ for each lock, such as a computed `wait`, must not fill the memory.
      if (known.size === MAX_OPTION_SETS) known.clear();
      known.set(key, value);
    }
    return value;
  }
}

/** Maximum number of option sets. */
const MAX_OPTION_SETS = 64;

/**
 * Returns whether core accepts this name with every client and options.
 *
 * Core only checks other names when the lock is created. Its rules are about length, several names, and hash tags of a
 * cluster.
 */
export function isAlwaysValid(names: readonly string[]): boolean {
  const [name = ""] = names;
  return names.length === 1 && name !== "" && name.length < 10_000 && !name.includes("}");
}

/**
 * The options of a client's locks.
 * @internal
 */
export class SharedOptions {
  readonly sites = new CallSites();
  readonly number: number;
  readonly ttl: number;
  readonly prefix: string;
  /** Whether leases have keys of their own, as those of a semaphore. */
  readonly hasOwnKeys: boolean;
  readonly #usual: boolean;

  constructor(
    readonly native: OptionSet,
    readonly options: LockOptions,
    /** Keeps the functions of the options alive for the client's connections. */
    readonly keepAlive: CallbacksHandle | undefined,
  ) {
    this.number = native.number;
    this.ttl = native.ttl;
    this.prefix = native.keyPrefix;
    this.hasOwnKeys = "limit" in options;
    this.#usual = !this.prefix.includes("}");
  }

  /** Throws if core rejects these names. */
  check(names: string[]): void {
    if (!this.#usual || !isAlwaysValid(names)) attempt(() => this.native.check(names));
  }
}

/**
 * A lock of one client.
 * @internal
 */
export class BoundLock implements LockDescription, LockInfo {
  /** Several keys are separated by commas. */
  readonly key: string;

  constructor(
    readonly shared: SharedOptions,
    readonly names: string[],
  ) {
    this.key = names.length === 1 ? shared.prefix + names[0] : this.keys.join(", ");
  }

  get keys(): string[] {
    if (this.hasOwnKeys) return this.shared.native.keys(this.names);
    return this.names.map((name) => this.shared.prefix + name);
  }

  get hasOwnKeys(): boolean {
    return this.shared.hasOwnKeys;
  }

  /** The names in the form that the native part expects. Most locks have one. */
  get nativeNames(): Names {
    return this.names.length === 1 ? (this.names[0] as string) : this.names;
  }

  get options(): LockOptions {
    return this.shared.options;
  }

  get sites(): CallSites {
    return this.shared.sites;
  }

  get ttl(): number {
    return this.shared.ttl;
  }

  get keepAlive(): CallbacksHandle | undefined {
    return this.shared.keepAlive;
  }

  bind(): BoundLock {
    return this;
  }

  known(): BoundLock {
    return this;
  }
}
