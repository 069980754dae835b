/** Runs a body while holding a lock. */

import { listen, reasonOf } from "./calls.js";
import { InvalidOption, lossBehind } from "./errors.js";
import type { Lease } from "./lease.js";
import { type AcquireOptions, checkOptions, type Rules } from "./options.js";

/** The function that runs while the lock is held. It receives the lease. */
export type Body<T, Fencing extends boolean = boolean> = (
  lease: Lease<Fencing>,
) => T | PromiseLike<T>;

/**
 * Checks the last arguments of `using()` and `withLock()`, which are options and the body. The options may be omitted.
 * @internal
 */
export function bodyOf<T, Fencing extends boolean, Options extends object>(
  options: Options | Body<T, Fencing> | undefined,
  body: Body<T, Fencing> | undefined,
  rules: Rules,
  call: string,
): [Options, Body<T, Fencing>] {
  if (typeof options === "function") {
    if (body === undefined) return [checkOptions<Options>(undefined, rules, call), options];
    throw new InvalidOption(`${call}: the options must come before the function to run`);
  }
  const found = checkOptions(options, rules, call);
  if (typeof body === "function") return [found, body];
  throw new InvalidOption(`${call}: the last argument must be the function to run`);
}

/**
 * Runs the body with the lease of `acquiring`, and releases the lease however the body ends. An aborted signal aborts
 * `lease.signal`. If a loss aborted it and the body therefore failed, the error is the loss.
 * @internal
 */
export async function runUnder<T, Fencing extends boolean>(
  acquiring: Promise<Lease<Fencing>>,
  body: Body<T, Fencing>,
  { signal }: AcquireOptions,
): Promise<T> {
  const lease = await acquiring;
  let result: T;
  try {
    lease.enterScope();
    result = await (signal === undefined ? body(lease) : runUntil(signal, lease, body));
  } catch (error) {
    // Read before the release, which may notice a loss that did not abort the body.
    const loss = error === signal?.reason ? undefined : lease.abortReason;
    // The error of the body takes precedence over an error of the release.
    await lease.release().catch(() => undefined);
    throw lossBehind(error, loss);
  }
  await lease.endScope();
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
