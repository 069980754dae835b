/** A body that runs under a lock. */

import { listen, reasonOf } from "./calls.js";
import { InvalidOption } from "./errors.js";
import type { Lease } from "./lease.js";
import {
  type AcquireOptions,
  checked,
  type LockOptions,
  USING,
  type UsingOptions,
} from "./options.js";

/** The work to be done under a lock. */
export type Body<T, Fencing extends boolean = boolean> = (
  lease: Lease<Fencing>,
) => T | PromiseLike<T>;

/**
 * The arguments of `using()`: the options may be left out.
 * @internal
 */
export function bodyOf<T>(second: UsingOptions | Body<T>, third?: Body<T>): BodyOf<T> {
  if (typeof second === "function") {
    if (third === undefined) return { options: {}, signal: undefined, body: second };
    throw new InvalidOption("using(): options go before the function to run");
  }
  const { signal, ...options } = checked(second, USING, "using()");
  if (typeof third !== "function") {
    throw new InvalidOption("using(): the last argument must be the function to run");
  }
  return { options, signal, body: third };
}

/** @internal */
export interface BodyOf<T> {
  options: LockOptions;
  signal: AbortSignal | undefined;
  body: Body<T>;
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
