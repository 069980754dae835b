/** Lists the leases of a client, as the objects that `acquire` returned. */

import type { CallbacksHandle } from "../options/callbacks.js";
import { native } from "../runtime/runtime.js";
import { type LeaseRecord, objectsOf } from "./collection.js";
import { Lease } from "./lease.js";

/** Returns the leases with these numbers. */
export function leasesOf(ids: readonly number[], keepAlive: CallbacksHandle | undefined): Lease[] {
  return objectsOf(ids, (remains) => leaseOf(remains, keepAlive));
}

/** Creates a new object for a lease whose first object was collected. */
function leaseOf({ id, key, site }: LeaseRecord, keepAlive: CallbacksHandle | undefined): Lease {
  const runtime = native();
  const keys = runtime.leaseKeys(id) ?? [];
  return new Lease(id, { key, keys, ttl: runtime.leaseTtl(id) ?? 0, keepAlive }, site);
}
