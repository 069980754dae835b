/**
 * Runs code outside of every async context. State that lives as long as this copy of the package would otherwise keep
 * the stores of its first importer alive.
 */

import { AsyncResource } from "node:async_hooks";

/** Properties in which AsyncLocalStorage keeps its stores. Node.js 24 uses a single frame for all of them. */
const STORES = ["kResourceStore", "context_frame"];

/**
 * Runs `make` where no AsyncLocalStorage has a store.
 *
 * Without it, a test file that imports the package within a test would never be collected. The same applies to the
 * first request of a server that imports the package while handling it.
 * @internal
 */
export function outsideAsyncContext<T>(make: () => T): T {
  const resource = new AsyncResource("redlock") as AsyncResource & Record<symbol, unknown>;
  for (const key of Object.getOwnPropertySymbols(resource)) {
    if (STORES.includes(key.description ?? "")) resource[key] = undefined;
  }
  return resource.runInAsyncScope(make);
}
