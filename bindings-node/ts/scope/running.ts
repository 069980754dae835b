/**
 * Keeps the process alive while bodies run under a lease. A body that only waits for the loss of its lease would
 * otherwise let the process end with the lock held.
 *
 * A pending call of the native part keeps the process alive in the same way. A body is none, so a timer does it here.
 */

import { outsideAsyncContext } from "../platform/async-context.js";
import { clearInterval, setInterval } from "../platform/clock.js";

/** The lease of a body. */
interface Running {
  /** Whether it was released, or its loss was reported. Nothing wakes the body after that. */
  readonly hasEnded: boolean;
}

const running = new Set<Running>();

/** Milliseconds until the timer looks for bodies whose lease has ended. */
const PERIOD = 1_000;
/**
 * Keeps the process alive while `running` has any. Afterwards it is cleared at once, because it would keep the context
 * of a test runner that this copy of the package is in.
 */
let timer: NodeJS.Timeout | undefined;

/** Keeps the process alive until `bodyEnds`, or soon after the lease has ended. */
export function bodyBegins(lease: Running): void {
  running.add(lease);
  timer ??= outsideAsyncContext(() => setInterval(look, PERIOD));
}

/** Allows the process to end after the last body. */
export function bodyEnds(lease: Running): void {
  running.delete(lease);
  clearWithoutBodies();
}

/** A body that never settles must not keep a process alive that released its lease or closed its client. */
function look(): void {
  for (const lease of running) if (lease.hasEnded) running.delete(lease);
  clearWithoutBodies();
}

function clearWithoutBodies(): void {
  if (running.size > 0) return;
  clearInterval(timer);
  timer = undefined;
}
