/** The native part for direct calls, and the end of this copy of the package when the process exits. */

import { type Runtime, weakly } from "../native.js";
import { publishEvent } from "../telemetry/events.js";
import { runtime } from "./connection.js";
import { undelivered } from "./delivery.js";
import { release } from "./operations.js";
import { leasesIn } from "./rows.js";
import { dropUnsentAcquires, send, stopBatching } from "./sender.js";

/** Whether the exit hook is registered. */
let hooked = false;

/** Returns the native part, after sending all recorded calls. */
export function native(): Runtime {
  if (!hooked) hookExit();
  send();
  return runtime;
}

/** Registers the exit hook. The process does not keep this copy of the package alive by it. */
function hookExit(): void {
  hooked = true;
  // It takes the place of no listener of the program, above whose number Node.js warns.
  const limit = process.getMaxListeners();
  if (limit > 0) process.setMaxListeners(limit + 1);
  process.on("exit", weakly(endAtExit));
}

/**
 * Sends the recorded releases, and cancels everything else, if the program ends the process. A caller that will never
 * receive its lease must leave no key. The end of the process is delayed briefly for the deletes.
 */
function endAtExit(): void {
  stopBatching();
  dropUnsentAcquires();
  // Not those of `attach`, whose keys belong to another holder.
  const acquired = leasesIn(undelivered()).filter((lease) => runtime.isAcquired(lease));
  for (const lease of acquired) release(lease, () => undefined);
  send();
  // The call after it drops what was not delivered.
  for (const event of runtime.takeLastEvents()) publishEvent(event);
  runtime.cancelAll();
}
