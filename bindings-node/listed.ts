/** Lists the leases of a client, as the objects that `acquire` returned. */

import { objectsOf, type Remains } from "./collection.js";
import type { Kept } from "./credentials.js";
import { Lease } from "./lease.js";
import { native } from "./runtime.js";

/** Returns the leases with these numbers. */
export function leasesOf(ids: readonly number[], kept: Kept | undefined): Lease[] {
  return objectsOf(ids, (remains) => leaseOf(remains, kept));
}

/** Creates a new object for a lease whose first object was collected. */
function leaseOf({ id, key, site }: Remains, kept: Kept | undefined): Lease {
  const known = native();
  const keys = known.leaseKeys(id) ?? [];
  return new Lease(id, { key, keys, ttl: known.leaseTtl(id) ?? 0, kept }, site);
}
