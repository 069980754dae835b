/** Outside of every async context: what lives as long as this copy would keep the stores of whoever imported it first. */

import { AsyncResource } from "node:async_hooks";

/** What AsyncLocalStorage keeps its stores under: one by one, or all of them in a frame (Node 24). */
const STORES = ["kResourceStore", "context_frame"];

/**
 * Runs `make` where no AsyncLocalStorage has a store. A test file that imports the package within a test would otherwise
 * never be collected, nor would the first request of a server that imports it then.
 * @internal
 */
export function outside<T>(make: () => T): T {
  const resource = new AsyncResource("redlock") as AsyncResource & Record<symbol, unknown>;
  for (const key of Object.getOwnPropertySymbols(resource)) {
    if (STORES.includes(key.description ?? "")) resource[key] = undefined;
  }
  return resource.runInAsyncScope(make);
}
