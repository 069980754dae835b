/** Leases that the program can no longer release, because their objects were garbage-collected. */

import { shown, weakly } from "../native.js";
import { setTimeout } from "../platform/clock.js";
import { native } from "../runtime/runtime.js";
import { warnOwn } from "../telemetry/warnings.js";
import { type CallSite, formatCallSite } from "./call-sites.js";
import { forget } from "./loss.js";

/** The data that remains when the object of a lease was collected. */
export interface LeaseRecord {
  id: number;
  key: string;
  site: CallSite;
}

/** The state behind a lease's object, which outlives it. */
export interface Watched {
  /**
   * Returns the data to keep for the lease, or undefined if it has ended. Afterwards the handle calls `unwatchLease` when
   * it ends.
   */
  register(): LeaseRecord | undefined;
}

/** A registered lease, with its object until that is collected. */
interface Registered<L extends object> {
  ref: WeakRef<L>;
  remains: LeaseRecord;
}

/** The registered leases that have not ended, by number. */
const known = new Map<number, Registered<object>>();

/**
 * Handles a lease whose object was collected. It is not released, because the statement `lock.acquire()` must not
 * unlock immediately. Renewal ends, the key expires when its TTL ends, and a warning shows the call site.
 */
const collected = new FinalizationRegistry<LeaseRecord>(({ id, key, site }) => {
  // The lease was listed again, as another object.
  if (known.get(id)?.ref.deref() !== undefined) return;
  known.delete(id);
  forget(id);
  if (!native().leaseDetach(id)) return;
  warnOwn(
    "lease",
    "{key}: a lease was garbage-collected without release(). It is no longer renewed and expires when its TTL ends. Acquired at {acquired_at}",
    { key: shown(key), acquired_at: formatCallSite(site) },
  );
});

/** Time in ms before a lease is registered. Until then this module keeps its object from collection. */
const REGISTER_DELAY = 50;

/**
 * Leases that are not registered yet. Most leases are released soon, and registering one costs as much as sending its
 * request.
 */
let newLeases: object[] = [];
/** The state behind each of them. */
let newStates: Watched[] = [];

/** Watches a lease, to warn if it is collected while it is held. */
export function watchLease(lease: object, watched: Watched): void {
  if (newLeases.length === 0) setTimeout(later.call, REGISTER_DELAY).unref();
  newLeases.push(lease);
  newStates.push(watched);
}

/** Stops watching a lease that has ended. */
export function unwatchLease(watched: Watched, id: number): void {
  collected.unregister(watched);
  known.delete(id);
}

function register(): void {
  const leases = newLeases;
  const all = newStates;
  newLeases = [];
  newStates = [];
  for (const [at, lease] of leases.entries()) {
    const watched = all[at] as Watched;
    const remains = watched.register();
    if (remains === undefined) continue;
    collected.register(lease, remains, watched);
    known.set(remains.id, { ref: new WeakRef(lease), remains });
  }
}

/**
 * Returns the objects of these leases, as `acquire` returned them. `create` creates the object of a lease that was
 * collected. Skips leases that were not delivered to their caller yet.
 */
export function objectsOf<L extends object>(
  ids: readonly number[],
  create: (remains: LeaseRecord) => L,
): L[] {
  register();
  const found: L[] = [];
  for (const id of ids) {
    const { ref, remains } = (known.get(id) as Registered<L> | undefined) ?? {};
    if (remains !== undefined) found.push(ref?.deref() ?? create(remains));
  }
  register();
  return found;
}

/** The timer must not keep this copy of the package alive, which `register` belongs to. */
const later = { register, call: weakly(register) };
