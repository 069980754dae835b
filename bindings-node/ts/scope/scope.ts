/** Runs a body while holding a lock. */

import { lossBehind } from "../errors/errors.js";
import type { Lease } from "../lease/lease.js";
import type { AcquireOptions } from "../options/options.js";
import { listen, reasonOf } from "../runtime/abort.js";
import type { Body } from "./body.js";
import { bodyBegins, bodyEnds } from "./running.js";

/**
 * Runs the body with the lease of `acquiring`, and releases the lease however the body ends. An aborted signal aborts
 * `lease.signal`. If a loss aborted it and the body therefore failed, the error is the loss. The process stays alive
 * until the body settles or the lease ends.
 * @internal
 */
export async function runUnder<T, Fencing extends boolean>(
  acquiring: Lease<Fencing> | Promise<Lease<Fencing>>,
  body: Body<T, Fencing>,
  { signal }: AcquireOptions,
): Promise<T> {
  const lease = await acquiring;
  let result: T;
  try {
    lease.enterScope();
    bodyBegins(lease);
    result = await (signal === undefined ? body(lease) : runUntil(signal, lease, body));
  } catch (error) {
    bodyEnds(lease);
    // Read before the release, which may notice a loss that did not abort the body.
    const loss = error === signal?.reason ? undefined : lease.abortReason;
    // The error of the body takes precedence over an error of the release.
    await lease.endScope(true, false).catch(() => undefined);
    throw lossBehind(error, loss);
  }
  bodyEnds(lease);
  await lease.endScope(false, true);
  return result;
}

async function runUntil<T, Fencing extends boolean>(
  signal: AbortSignal,
  lease: Lease<Fencing>,
  body: Body<T, Fencing>,
): Promise<T> {
  if (signal.aborted) throw reasonOf(signal);
  const forget = listen(signal, () => lease.abortSignal(reasonOf(signal)));
  try {
    return await body(lease);
  } finally {
    forget();
  }
}
