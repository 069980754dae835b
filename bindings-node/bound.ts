/** A lock of one client, by the number that the native part knows it by. */

import type { Kept } from "./credentials.js";
import type { Locked } from "./handle.js";
import type { NativeLock } from "./native.js";
import type { LockOptions } from "./options.js";

/**
 * What a lock is made of.
 * @internal
 */
export interface Described {
  readonly names: readonly string[];
  readonly options: LockOptions;
  /** The default client is looked up at each use. */
  bind(): Bound;
  /** As `bind`, but it chooses no client. */
  known(): Bound | undefined;
}

/**
 * A lock of one client: one object for all that a lock is made of, as there may be one for each use.
 * @internal
 */
export class Bound implements Described {
  readonly number: number;
  /** What its leases keep: not the native lock, of which there may be one for each of them. */
  readonly locked: Locked;

  constructor(
    readonly native: NativeLock,
    readonly names: readonly string[],
    readonly options: LockOptions,
    kept?: Kept,
  ) {
    const { key, number, ttl } = native;
    this.number = number;
    this.locked = { key, keys: names.length === 1 ? [key] : native.keys, ttl, kept };
  }

  bind(): Bound {
    return this;
  }

  known(): Bound {
    return this;
  }
}
