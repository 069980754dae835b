/** Leases that nobody can release any more, as their objects were garbage-collected. */

import { setTimeout } from "node:timers";
import { forget } from "./loss.js";
import { shown, weakly } from "./native.js";
import { native, now } from "./runtime.js";
import { capture, firstFrame, limitFrames } from "./stack.js";
import { warn } from "./warnings.js";

/**
 * Where a lease was acquired: a stack that costs its text only if somebody reads it.
 * @internal
 */
export interface CallSite {
  stack?: unknown;
  /** When, in ms. */
  readonly at: number;
  /** How many acquires were put down to it. */
  uses: number;
}

/** Whose frame is the last of ours: the caller's comes below it. */
export type Way = (...args: never[]) => unknown;

/** For how long (ms) acquires with the same options are taken to come from one place; only warnings show it. */
const SAME_PLACE = 50;

/** Where acquires with the same options are called. To look that up costs more than to send the request. */
export class Sites {
  readonly #last = new WeakMap<Way, CallSite>();

  /** The frame below this method of ours: that of the last call, if it was a moment ago. */
  here(below: Way): CallSite {
    const at = now();
    let site = this.#last.get(below);
    if (site === undefined || at - site.at > SAME_PLACE) {
      site = { at, uses: 0 };
      const limit = limitFrames(1);
      capture(site, below);
      limitFrames(limit);
      this.#last.set(below, site);
    }
    site.uses += 1;
    return site;
  }
}

/** The caller's own line, as messages show it. */
export function where(site: CallSite): string {
  const frame = firstFrame(site);
  const other = `or by another acquire with the same options within ${SAME_PLACE} ms`;
  return site.uses === 1 ? frame : `${frame}, ${other}`;
}

/** What is left of a lease's object. */
export interface Remains {
  id: number;
  key: string;
  site: CallSite;
}

/** What stands behind a lease's object, which may be collected. */
export interface Watched {
  /** What would be left of it; nothing if it is over. From now on it says when it is. */
  register(): Remains | undefined;
}

/** A lease that is no longer young: its object, while there is one, and what is left of it without. */
interface Known<L extends object> {
  ref: WeakRef<L>;
  remains: Remains;
}

/** Those that are not over, by their numbers. */
const known = new Map<number, Known<object>>();

/**
 * A lease that is collected is not released: `lock.acquire()` as a statement must not unlock at once. Renewal ends, the
 * key lives out its ttl, and a warning says where the lease came from.
 */
const collected = new FinalizationRegistry<Remains>(({ id, key, site }) => {
  // It was listed again, under another object.
  if (known.get(id)?.ref.deref() !== undefined) return;
  known.delete(id);
  forget(id);
  if (!native().leaseDetach(id)) return;
  warn(
    `${shown(key)}: a lease was garbage-collected without release(); it is no longer renewed and ends with its ttl. Acquired at ${where(site)}`,
    "collected",
  );
});

/** How long (ms) a lease is kept from collection before it is worth a place in the registry. */
const YOUNG = 50;

/** Most leases are released within a moment: a registry entry for each would cost as much as sending its request. */
let young: object[] = [];
/** What stands behind each of them. */
let behind: Watched[] = [];

/** Tells of a lease that is collected while it is held. */
export function watchOver(lease: object, watched: Watched): void {
  if (young.length === 0) setTimeout(later.call, YOUNG).unref();
  young.push(lease);
  behind.push(watched);
}

/** It is over: nobody needs to be told. */
export function overlook(watched: Watched, id: number): void {
  collected.unregister(watched);
  known.delete(id);
}

function register(): void {
  const leases = young;
  const all = behind;
  young = [];
  behind = [];
  for (const [at, lease] of leases.entries()) {
    const watched = all[at] as Watched;
    const remains = watched.register();
    if (remains === undefined) continue;
    collected.register(lease, remains, watched);
    known.set(remains.id, { ref: new WeakRef(lease), remains });
  }
}

/**
 * The objects of these leases: those that were handed out, and for one that was collected since, what `again` makes of
 * what is left. None for one that is still on its way to its caller.
 */
export function objectsOf<L extends object>(
  ids: readonly number[],
  again: (remains: Remains) => L,
): L[] {
  register();
  const found: L[] = [];
  for (const id of ids) {
    const { ref, remains } = (known.get(id) as Known<L> | undefined) ?? {};
    if (remains !== undefined) found.push(ref?.deref() ?? again(remains));
  }
  register();
  return found;
}

/** A timer must not keep this copy of the package, which holds `register` itself. */
const later = { register, call: weakly(register) };
