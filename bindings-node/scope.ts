/** A body that runs under a lock. */

import { listen, reasonOf } from "./calls.js";
import { InvalidOption } from "./errors.js";
import type { Lease } from "./lease.js";
import { type AcquireOptions, checked, type Rules } from "./options.js";

/** The work to be done under a lock. */
export type Body<T, Fencing extends boolean = boolean> = (
  lease: Lease<Fencing>,
) => T | PromiseLike<T>;

/**
 * The last arguments of `using()` and `withLock()`: checked options, which may be left out, and the body.
 * @internal
 */
export function bodyOf<T, Fencing extends boolean, Options extends object>(
  options: Options | Body<T, Fencing> | undefined,
  body: Body<T, Fencing> | undefined,
  rules: Rules,
  call: string,
): [Options, Body<T, Fencing>] {
  if (typeof options === "function") {
    if (body === undefined) return [checked<Options>(undefined, rules, call), options];
    throw new InvalidOption(`${call}: options go before the function to run`);
  }
  const found = checked(options, rules, call);
  if (typeof body === "function") return [found, body];
  throw new InvalidOption(`${call}: the last argument must be the function to run`);
}

/**
 * Runs the body under the lease that `acquiring` gives, which is released whatever becomes of the body; an aborted signal
 * aborts the lease's own.
 * @internal
 */
export async function runUnder<T, Fencing extends boolean>(
  acquiring: Promise<Lease<Fencing>>,
  body: Body<T, Fencing>,
  { signal }: AcquireOptions,
): Promise<T> {
  const lease = await acquiring;
  lease.enter();
  let result: T;
  try {
    result = await (signal === undefined ? body(lease) : runUntil(signal, lease, body));
  } catch (error) {
    // The body's error stands; what went wrong with the release is the lesser news.
    await lease.release().catch(() => undefined);
    throw error;
  }
  await lease.end();
  return result;
}

async function runUntil<T, Fencing extends boolean>(
  signal: AbortSignal,
  lease: Lease<Fencing>,
  body: Body<T, Fencing>,
): Promise<T> {
  if (signal.aborted) throw reasonOf(signal);
  const forget = listen(signal, () => lease.stop(reasonOf(signal)));
  try {
    return await body(lease);
  } finally {
    forget();
  }
}
